"""The allocator for kernel temporaries as LLVM IR: 64-byte aligned, keeps freed big blocks for the next call.

A fresh 16 MiB block costs 4096 page faults; kernels ask for the same sizes at every call. So blocks of 64 KiB
and more are kept after release, at most 32 of them and `limit` bytes in all; the oldest go first. A request
takes the smallest kept block that is large enough and at most half as large again. The 64 bytes before a
block hold its size and where its memory begins. A spin lock guards the list (a few dozen instructions, no
calls but `free`).
"""

from __future__ import annotations

TEXT = """
%slot = type { ptr, i64 }
%header = type { i64, ptr }

@memory.slots = internal global [33 x %slot] zeroinitializer, align 64   ; oldest first; one spare
@memory.count = internal global i64 0
@memory.kept = internal global i64 0
@memory.limit = internal global i64 268435456
@memory.lock = internal global i32 0, align 64

declare i32 @posix_memalign(ptr, i64, i64)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @sched_yield()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal void @memory.acquire() {
entry:
  br label %try
try:
  %n = phi i64 [ 0, %entry ], [ %n1, %more ]
  %swap = cmpxchg ptr @memory.lock, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %swap, 1
  br i1 %won, label %out, label %wait
wait:
  %n1 = add i64 %n, 1
  %long = icmp ugt i64 %n1, 100
  br i1 %long, label %yield, label %pause
yield:
  call i32 @sched_yield()
  br label %more
pause:
  call void @pool.relax()
  br label %more
more:
  br label %try
out:
  ret void
}

define internal void @memory.free(ptr %block) {
  %at = getelementptr i8, ptr %block, i64 -64
  %place = getelementptr %header, ptr %at, i64 0, i32 1
  %base = load ptr, ptr %place
  call void @free(ptr %base)
  ret void
}

; Takes slot `i` out of the list (lock held) and returns its block.
define internal ptr @memory.take(i64 %i) {
  %place = getelementptr %slot, ptr @memory.slots, i64 %i
  %block = load ptr, ptr %place
  %size.p = getelementptr %slot, ptr %place, i64 0, i32 1
  %size = load i64, ptr %size.p
  %after = getelementptr %slot, ptr %place, i64 1
  %count = load i64, ptr @memory.count
  %count1 = sub i64 %count, 1
  %rest = sub i64 %count1, %i
  %bytes = mul i64 %rest, 16
  call void @llvm.memmove.p0.p0.i64(ptr %place, ptr %after, i64 %bytes, i1 false)
  store i64 %count1, ptr @memory.count
  %kept = load i64, ptr @memory.kept
  %kept1 = sub i64 %kept, %size
  store i64 %kept1, ptr @memory.kept
  ret ptr %block
}

; Frees the oldest blocks until at most `slots` blocks and `bytes` bytes are kept (lock held).
define internal void @memory.shrink(i64 %slots, i64 %bytes) {
entry:
  br label %check
check:
  %count = load i64, ptr @memory.count
  %kept = load i64, ptr @memory.kept
  %many = icmp sgt i64 %count, %slots
  %large = icmp sgt i64 %kept, %bytes
  %over = or i1 %many, %large
  br i1 %over, label %drop, label %out
drop:
  %block = call ptr @memory.take(i64 0)
  call void @memory.free(ptr %block)
  br label %check
out:
  ret void
}

define internal void @memory.head(ptr %block, i64 %size, ptr %base) {
  %at = getelementptr i8, ptr %block, i64 -64
  store i64 %size, ptr %at
  %base.p = getelementptr %header, ptr %at, i64 0, i32 1
  store ptr %base, ptr %base.p
  ret void
}

define internal ptr @memory.fresh(i64 %size, i64 %lead) {
entry:
  %place = alloca ptr
  %total = add i64 %size, %lead
  %code = call i32 @posix_memalign(ptr %place, i64 %lead, i64 %total)
  %good = icmp eq i32 %code, 0
  br i1 %good, label %fill, label %none
fill:
  %base = load ptr, ptr %place
  %block = getelementptr i8, ptr %base, i64 %lead
  call void @memory.head(ptr %block, i64 %size, ptr %base)
  ret ptr %block
none:
  ret ptr null
}

define ptr @tw_rt_alloc(ptr %ctx, i64 %bytes) {
entry:
  %sane = icmp ult i64 %bytes, 1152921504606846976
  br i1 %sane, label %sized, label %none
sized:
  %small = icmp ult i64 %bytes, 65536
  br i1 %small, label %little, label %big
little:
  %up = add i64 %bytes, 63
  %lines = and i64 %up, -64
  %room.l = add i64 %lines, 128
  %base.l = call ptr @malloc(i64 %room.l)   ; several times as fast as posix_memalign
  %none.l = icmp eq ptr %base.l, null
  br i1 %none.l, label %none, label %place.l
place.l:
  %first = ptrtoint ptr %base.l to i64
  %ahead = sub i64 0, %first
  %pad = and i64 %ahead, 63
  %lead.l = add i64 %pad, 64
  %block.l = getelementptr i8, ptr %base.l, i64 %lead.l
  call void @memory.head(ptr %block.l, i64 %lines, ptr %base.l)
  ret ptr %block.l
big:
  %up.b = add i64 %bytes, 4095
  %size = and i64 %up.b, -4096
  %half = lshr i64 %size, 1
  %most = add i64 %size, %half
  call void @memory.acquire()
  %count = load i64, ptr @memory.count
  br label %check
check:
  %i = phi i64 [ 0, %big ], [ %i1, %next ]
  %best = phi i64 [ -1, %big ], [ %best1, %next ]
  %least = phi i64 [ %most, %big ], [ %least1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %next, label %chosen
next:
  %place = getelementptr %slot, ptr @memory.slots, i64 %i, i32 1
  %have = load i64, ptr %place
  %enough = icmp sge i64 %have, %size
  %less = icmp sle i64 %have, %least
  %better = and i1 %enough, %less
  %best1 = select i1 %better, i64 %i, i64 %best
  %least1 = select i1 %better, i64 %have, i64 %least
  %i1 = add i64 %i, 1
  br label %check
chosen:
  %hit = icmp sge i64 %best, 0
  br i1 %hit, label %reuse, label %miss
reuse:
  %block = call ptr @memory.take(i64 %best)
  store atomic i32 0, ptr @memory.lock release, align 4
  ret ptr %block
miss:
  store atomic i32 0, ptr @memory.lock release, align 4
  %block.b = call ptr @memory.fresh(i64 %size, i64 4096)
  ret ptr %block.b
none:
  ret ptr null
}

define void @tw_rt_release(ptr %ctx, ptr %block) {
entry:
  %nothing = icmp eq ptr %block, null
  br i1 %nothing, label %out, label %look
look:
  %at = getelementptr i8, ptr %block, i64 -64
  %size = load i64, ptr %at
  %big = icmp sge i64 %size, 65536
  %limit = load atomic i64, ptr @memory.limit monotonic, align 8
  %fits = icmp sle i64 %size, %limit
  %keep = and i1 %big, %fits
  br i1 %keep, label %store, label %free
store:
  call void @memory.acquire()
  %room = sub i64 %limit, %size
  call void @memory.shrink(i64 31, i64 %room)
  %count = load i64, ptr @memory.count
  %place = getelementptr %slot, ptr @memory.slots, i64 %count
  store ptr %block, ptr %place
  %size.p = getelementptr %slot, ptr %place, i64 0, i32 1
  store i64 %size, ptr %size.p
  %count1 = add i64 %count, 1
  store i64 %count1, ptr @memory.count
  %kept = load i64, ptr @memory.kept
  %kept1 = add i64 %kept, %size
  store i64 %kept1, ptr @memory.kept
  store atomic i32 0, ptr @memory.lock release, align 4
  ret void
free:
  call void @memory.free(ptr %block)
  ret void
out:
  ret void
}

; How many bytes may be kept from now on; what is over is freed at once.
define void @tw_rt_keep(i64 %bytes) {
  call void @memory.acquire()
  store atomic i64 %bytes, ptr @memory.limit monotonic, align 8
  call void @memory.shrink(i64 32, i64 %bytes)
  store atomic i32 0, ptr @memory.lock release, align 4
  ret void
}

define i64 @tw_rt_kept() {
  %kept = load atomic i64, ptr @memory.kept monotonic, align 8
  ret i64 %kept
}

; A list that another thread was changing at the fork is given up in the child.
define void @tw_rt_after_fork() {
entry:
  call void @pool.after_fork()
  %held = load i32, ptr @memory.lock
  %torn = icmp ne i32 %held, 0
  br i1 %torn, label %forget, label %out
forget:
  store i64 0, ptr @memory.count
  store i64 0, ptr @memory.kept
  store i32 0, ptr @memory.lock
  br label %out
out:
  ret void
}
"""
