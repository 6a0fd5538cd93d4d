"""The runtime without POSIX threads: loops are serial, memory comes from malloc and goes back at once."""

from __future__ import annotations

TEXT = """
%header = type { i64, ptr }

declare ptr @malloc(i64)
declare void @free(ptr)

define i32 @tw_rt_parallel_for(ptr %ctx, ptr %body, ptr %env, i64 %n, i64 %amount) {
  %code = call i32 @tw_rt_serial_for(ptr %ctx, ptr %body, ptr %env, i64 %n)
  ret i32 %code
}

define ptr @tw_rt_alloc(ptr %ctx, i64 %bytes) {
entry:
  %sane = icmp ult i64 %bytes, 1152921504606846976
  br i1 %sane, label %ask, label %none
ask:
  %total = add i64 %bytes, 128                     ; room to align, and for the header
  %base = call ptr @malloc(i64 %total)
  %failed = icmp eq ptr %base, null
  br i1 %failed, label %none, label %align
align:
  %at = ptrtoint ptr %base to i64
  %past = add i64 %at, 127
  %up = and i64 %past, -64
  %lead = sub i64 %up, %at
  %block = getelementptr i8, ptr %base, i64 %lead
  %header.p = getelementptr i8, ptr %block, i64 -64
  %base.p = getelementptr %header, ptr %header.p, i64 0, i32 1
  store ptr %base, ptr %base.p
  ret ptr %block
none:
  ret ptr null
}

define void @tw_rt_release(ptr %ctx, ptr %block) {
entry:
  %nothing = icmp eq ptr %block, null
  br i1 %nothing, label %out, label %give
give:
  %header.p = getelementptr i8, ptr %block, i64 -64
  %base.p = getelementptr %header, ptr %header.p, i64 0, i32 1
  %base = load ptr, ptr %base.p
  call void @free(ptr %base)
  br label %out
out:
  ret void
}

define void @tw_rt_keep(i64 %bytes) {
  ret void
}

define i64 @tw_rt_kept() {
  ret i64 0
}

define void @tw_rt_configure(ptr %cpus, i64 %count, i64 %spin, i64 %short) {
  ret void
}

define i64 @tw_rt_workers() {
  ret i64 0
}

define void @tw_rt_after_fork() {
  ret void
}
"""
