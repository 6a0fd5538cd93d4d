"""Which processors the workers of the pool run on, as LLVM IR.

A worker on the caller's processor would wait for the caller, who waits for the worker. So workers get a
processor each, and one is left to the caller: `home`. The caller stays free to move; when a loop starts
and it is found on a worker's processor, that worker goes to the one that the caller has left.

On a busy machine a worker may have lost its processor to another process in the middle of a task. A caller that has
waited for a while therefore lets the workers that it waits for run anywhere, above all where it stands itself: it
is about to sleep. They are pinned again when the next loop starts.
"""

from __future__ import annotations

LINUX = """
@pool.home = internal global i32 -1
@pool.threads = internal global [256 x ptr] zeroinitializer            ; pthread_t of each worker
@pool.places = internal global [256 x i32] zeroinitializer             ; its processor

@pool.loose = internal global [256 x i32] zeroinitializer              ; 1: not pinned for now
@pool.loosened = internal global i32 0                                 ; 1: some worker is loose

declare i32 @pthread_setaffinity_np(ptr, i64, ptr)
declare i32 @sched_getcpu()

; Number in the list of a processor, or -1.
define internal i64 @pool.find(i32 %wanted) {
entry:
  %count = load i64, ptr @pool.cpu_count
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %missing
look:
  %place = getelementptr i32, ptr @pool.cpus, i64 %i
  %cpu = load i32, ptr %place
  %same = icmp eq i32 %cpu, %wanted
  br i1 %same, label %found, label %next
next:
  %i1 = add i64 %i, 1
  br label %check
found:
  ret i64 %i
missing:
  ret i64 -1
}

define internal void @pool.place() {
  %here = call i32 @sched_getcpu()
  %i = call i64 @pool.find(i32 %here)
  %first = call i64 @llvm.smax.i64(i64 %i, i64 0)
  store i64 %first, ptr @pool.cpu_first
  store i32 %here, ptr @pool.home
  store i32 0, ptr @pool.loosened
  call void @llvm.memset.p0.i64(ptr @pool.loose, i8 0, i64 1024, i1 false)
  ret void
}

; Adds a processor to a cpu_set_t.
define internal void @pool.add(ptr %mask, i32 %cpu) {
entry:
  %fits = icmp ult i32 %cpu, 1024
  br i1 %fits, label %set, label %out
set:
  %byte = lshr i32 %cpu, 3
  %bit = and i32 %cpu, 7
  %flag = shl i32 1, %bit
  %value = trunc i32 %flag to i8
  %at = getelementptr i8, ptr %mask, i32 %byte
  %old = load i8, ptr %at
  %new = or i8 %old, %value
  store i8 %new, ptr %at
  br label %out
out:
  ret void
}

define internal void @pool.move(i64 %index, i32 %cpu) {
entry:
  %mask = alloca [128 x i8], align 16
  %place = getelementptr i32, ptr @pool.places, i64 %index
  store i32 %cpu, ptr %place
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  call void @pool.add(ptr %mask, i32 %cpu)
  %thread.p = getelementptr ptr, ptr @pool.threads, i64 %index
  %thread = load ptr, ptr %thread.p
  call i32 @pthread_setaffinity_np(ptr %thread, i64 128, ptr %mask)
  ret void
}

; Lets the workers that are inside the gate run on every processor of the list.
define internal void @pool.loosen() {
entry:
  %mask = alloca [128 x i8], align 16
  %count = load i64, ptr @pool.cpu_count
  %several = icmp sgt i64 %count, 1
  br i1 %several, label %clear, label %out
clear:
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  br label %fill
fill:
  %c = phi i64 [ 0, %clear ], [ %c1, %fill ]
  %cpu.p = getelementptr i32, ptr @pool.cpus, i64 %c
  %cpu = load i32, ptr %cpu.p
  call void @pool.add(ptr %mask, i32 %cpu)
  %c1 = add i64 %c, 1
  %c.more = icmp slt i64 %c1, %count
  br i1 %c.more, label %fill, label %begin
begin:
  %workers = load i64, ptr @pool.started
  br label %check
check:
  %i = phi i64 [ 0, %begin ], [ %i1, %next ]
  %more = icmp slt i64 %i, %workers
  br i1 %more, label %look, label %out
look:
  %mark = call ptr @pool.inside(i64 %i)
  %inside = load atomic i32, ptr %mark monotonic, align 4
  %place = getelementptr i32, ptr @pool.places, i64 %i
  %pinned = load i32, ptr %place
  %is.inside = icmp ne i32 %inside, 0
  %is.pinned = icmp sge i32 %pinned, 0
  %stuck = and i1 %is.inside, %is.pinned
  br i1 %stuck, label %free, label %next
free:
  %thread.p = getelementptr ptr, ptr @pool.threads, i64 %i
  %thread = load ptr, ptr %thread.p
  call i32 @pthread_setaffinity_np(ptr %thread, i64 128, ptr %mask)
  %loose = getelementptr i32, ptr @pool.loose, i64 %i
  store i32 1, ptr %loose
  store i32 1, ptr @pool.loosened
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %check
out:
  ret void
}

; Pins loosened workers again.
define internal void @pool.tighten() {
entry:
  %some = load i32, ptr @pool.loosened
  %any = icmp ne i32 %some, 0
  br i1 %any, label %begin, label %out
begin:
  store i32 0, ptr @pool.loosened
  %workers = load i64, ptr @pool.started
  br label %check
check:
  %i = phi i64 [ 0, %begin ], [ %i1, %next ]
  %more = icmp slt i64 %i, %workers
  br i1 %more, label %look, label %out
look:
  %loose.p = getelementptr i32, ptr @pool.loose, i64 %i
  %loose = load i32, ptr %loose.p
  %is.loose = icmp ne i32 %loose, 0
  br i1 %is.loose, label %pin, label %next
pin:
  store i32 0, ptr %loose.p
  %place = getelementptr i32, ptr @pool.places, i64 %i
  %cpu = load i32, ptr %place
  call void @pool.move(i64 %i, i32 %cpu)
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %check
out:
  ret void
}

define internal void @pool.pin(i64 %index, ptr %thread) {
entry:
  %thread.p = getelementptr ptr, ptr @pool.threads, i64 %index
  store ptr %thread, ptr %thread.p
  %place = getelementptr i32, ptr @pool.places, i64 %index
  store i32 -1, ptr %place
  %count = load i64, ptr @pool.cpu_count
  %none = icmp eq i64 %count, 0
  br i1 %none, label %out, label %choose
choose:
  %first = load i64, ptr @pool.cpu_first
  %shifted = add i64 %first, 1
  %wanted = add i64 %shifted, %index
  %slot = urem i64 %wanted, %count
  %cpu.p = getelementptr i32, ptr @pool.cpus, i64 %slot
  %cpu = load i32, ptr %cpu.p
  call void @pool.move(i64 %index, i32 %cpu)
  br label %out
out:
  ret void
}

; Keeps workers off the caller's processor.
define internal void @pool.part() {
entry:
  call void @pool.tighten()
  %count = load i64, ptr @pool.cpu_count
  %several = icmp sgt i64 %count, 1
  br i1 %several, label %look, label %out
look:
  %here = call i32 @sched_getcpu()
  %home = load i32, ptr @pool.home
  %stayed = icmp eq i32 %here, %home
  br i1 %stayed, label %out, label %known
known:
  %ours = call i64 @pool.find(i32 %here)
  %listed = icmp sge i64 %ours, 0
  br i1 %listed, label %begin, label %out
begin:
  store i32 %here, ptr @pool.home
  %workers = load i64, ptr @pool.started
  br label %check
check:
  %i = phi i64 [ 0, %begin ], [ %i1, %next ]
  %more = icmp slt i64 %i, %workers
  br i1 %more, label %one, label %out
one:
  %place = getelementptr i32, ptr @pool.places, i64 %i
  %cpu = load i32, ptr %place
  %clash = icmp eq i32 %cpu, %here
  br i1 %clash, label %swap, label %next
next:
  %i1 = add i64 %i, 1
  br label %check
swap:
  call void @pool.move(i64 %i, i32 %home)
  br label %out
out:
  ret void
}
"""

# Where threads can't be bound to processors.
NONE = """
define internal void @pool.place() {
  ret void
}
define internal void @pool.pin(i64 %index, ptr %thread) {
  ret void
}
define internal void @pool.part() {
  ret void
}
define internal void @pool.loosen() {
  ret void
}
"""
