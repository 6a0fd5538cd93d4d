"""The parts of the call from Python, as LLVM IR: checking an array, converting a scalar, making an output."""

from __future__ import annotations

TEXT = """
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyErr_Occurred()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)

define internal i64 @word(ptr %at, i64 %offset) alwaysinline {
  %p = getelementptr i8, ptr %at, i64 %offset
  %v = load i64, ptr %p
  ret i64 %v
}

define internal ptr @item(ptr %at, i64 %offset) alwaysinline {
  %p = getelementptr i8, ptr %at, i64 %offset
  %v = load ptr, ptr %p
  ret ptr %v
}

; The extent that an axis record asks for, -1 when a size symbol in it is not known.
define internal i64 @extent(ptr %table, ptr %axis, ptr %sizes) {
entry:
  %kind = call i64 @word(ptr %axis, i64 0)
  %value = call i64 @word(ptr %axis, i64 8)
  switch i64 %kind, label %linear [ i64 0, label %symbol
                                    i64 1, label %constant ]
symbol:
  %place = getelementptr i64, ptr %sizes, i64 %value
  %size = load i64, ptr %place
  ret i64 %size
constant:
  ret i64 %value
linear:
  %terms = getelementptr i8, ptr %table, i64 %value
  %c = call i64 @word(ptr %terms, i64 0)
  %n = call i64 @word(ptr %terms, i64 8)
  br label %check
check:
  %i = phi i64 [ 0, %linear ], [ %i1, %add ]
  %sum = phi i64 [ %c, %linear ], [ %sum1, %add ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %term, label %done
term:
  %pair = shl i64 %i, 4
  %at = add i64 %pair, 16
  %coefficient = call i64 @word(ptr %terms, i64 %at)
  %at2 = add i64 %at, 8
  %k = call i64 @word(ptr %terms, i64 %at2)
  %place.k = getelementptr i64, ptr %sizes, i64 %k
  %size.k = load i64, ptr %place.k
  %unknown = icmp slt i64 %size.k, 0
  br i1 %unknown, label %missing, label %add
add:
  %product = mul i64 %coefficient, %size.k
  %sum1 = add i64 %sum, %product
  %i1 = add i64 %i, 1
  br label %check
done:
  ret i64 %sum
missing:
  ret i64 -1
}

; A new output array (a new reference); null with an exception set, or without one when a size is unknown.
define internal ptr @create(ptr %table, ptr %record, ptr %sizes) {
entry:
  %dims = alloca [64 x i64], align 16
  %rank = call i64 @word(ptr %record, i64 ARRAY.rank)
  %first = call i64 @word(ptr %record, i64 ARRAY.axis)
  %axis_at = call i64 @word(ptr %table, i64 HEAD.axis_at)
  %axes = getelementptr i8, ptr %table, i64 %axis_at
  br label %check
check:
  %d = phi i64 [ 0, %entry ], [ %d1, %known ]
  %more = icmp slt i64 %d, %rank
  br i1 %more, label %one, label %make
one:
  %number = add i64 %first, %d
  %offset = mul i64 %number, AXIS.bytes
  %axis = getelementptr i8, ptr %axes, i64 %offset
  %extent = call i64 @extent(ptr %table, ptr %axis, ptr %sizes)
  %unknown = icmp slt i64 %extent, 0
  br i1 %unknown, label %none, label %known
known:
  %place = getelementptr i64, ptr %dims, i64 %d
  store i64 %extent, ptr %place
  %d1 = add i64 %d, 1
  br label %check
make:
  %allocate = call ptr @item(ptr %table, i64 HEAD.allocate)
  %descr = call ptr @item(ptr %record, i64 ARRAY.descr)
  call void @Py_IncRef(ptr %descr)                 ; PyArray_Empty takes a reference over
  %rank32 = trunc i64 %rank to i32
  %array = call ptr %allocate(i32 %rank32, ptr %dims, ptr %descr, i32 0)
  ret ptr %array
none:
  ret ptr null
}

; Checks one array against its record; fills data, strides and the byte range. False: not for the fast path.
define internal i1 @admit(ptr %table, ptr %record, ptr %array,
                          ptr %sizes, ptr %data, ptr %strides, ptr %lo, ptr %hi) {
entry:
  %type = call ptr @item(ptr %array, i64 8)
  %ndarray = call ptr @item(ptr %table, i64 HEAD.ndarray)
  %exact = icmp eq ptr %type, %ndarray
  br i1 %exact, label %head, label %no
head:
  %descr = call ptr @item(ptr %array, i64 56)
  %want.descr = call ptr @item(ptr %record, i64 ARRAY.descr)
  %same.descr = icmp eq ptr %descr, %want.descr
  %nd.p = getelementptr i8, ptr %array, i64 24
  %nd = load i32, ptr %nd.p
  %nd64 = sext i32 %nd to i64
  %rank = call i64 @word(ptr %record, i64 ARRAY.rank)
  %same.rank = icmp eq i64 %nd64, %rank
  %flags.p = getelementptr i8, ptr %array, i64 64
  %flags32 = load i32, ptr %flags.p
  %flags = zext i32 %flags32 to i64
  %need = call i64 @word(ptr %record, i64 ARRAY.flags)
  %got = and i64 %flags, %need
  %same.flags = icmp eq i64 %got, %need
  %a = and i1 %same.descr, %same.rank
  %b = and i1 %a, %same.flags
  br i1 %b, label %body, label %no
body:
  %address = call ptr @item(ptr %array, i64 16)
  store ptr %address, ptr %data
  %dims = call ptr @item(ptr %array, i64 32)
  %steps = call ptr @item(ptr %array, i64 40)
  %shift = call i64 @word(ptr %record, i64 ARRAY.shift)
  %itemsize = shl i64 1, %shift
  %mask = sub i64 %itemsize, 1
  %written = call i64 @word(ptr %record, i64 ARRAY.written)
  %is.written = icmp ne i64 %written, 0
  %first = call i64 @word(ptr %record, i64 ARRAY.axis)
  %axis_at = call i64 @word(ptr %table, i64 HEAD.axis_at)
  %first.b = mul i64 %first, AXIS.bytes
  %axes.at = add i64 %axis_at, %first.b
  %axes = getelementptr i8, ptr %table, i64 %axes.at
  br label %check
check:                                             ; axes from the innermost outwards
  %d = phi i64 [ %rank, %body ], [ %k, %stride.done ]
  %span = phi i64 [ 0, %body ], [ %span1, %stride.done ]
  %empty = phi i1 [ false, %body ], [ %empty1, %stride.done ]
  %packed = phi i64 [ 1, %body ], [ %packed1, %stride.done ]
  %wrong = phi i1 [ false, %body ], [ %wrong1, %stride.done ]
  %more = icmp sgt i64 %d, 0
  br i1 %more, label %axis, label %range
axis:
  %k = sub i64 %d, 1
  %dim.p = getelementptr i64, ptr %dims, i64 %k
  %dim = load i64, ptr %dim.p
  %step.p = getelementptr i64, ptr %steps, i64 %k
  %step = load i64, ptr %step.p
  %record.o = mul i64 %k, AXIS.bytes
  %record.a = getelementptr i8, ptr %axes, i64 %record.o
  %kind = call i64 @word(ptr %record.a, i64 0)
  %value = call i64 @word(ptr %record.a, i64 8)
  %class = call i64 @word(ptr %record.a, i64 16)
  switch i64 %kind, label %stride [ i64 0, label %symbol
                                    i64 1, label %constant ]
symbol:
  %size.p = getelementptr i64, ptr %sizes, i64 %value
  %size = load i64, ptr %size.p
  %new = icmp slt i64 %size, 0
  br i1 %new, label %define, label %compare
define:
  store i64 %dim, ptr %size.p
  br label %stride
compare:
  %same.size = icmp eq i64 %size, %dim
  br i1 %same.size, label %stride, label %no
constant:
  %same.extent = icmp eq i64 %value, %dim
  br i1 %same.extent, label %stride, label %no
stride:
  %short = icmp slt i64 %dim, 2
  switch i64 %class, label %dense [ i64 0, label %any
                                    i64 1, label %unit ]
any:
  %negative = icmp slt i64 %step, 0
  %rest = and i64 %step, %mask
  %odd = icmp ne i64 %rest, 0
  %bad = or i1 %negative, %odd
  %elements = ashr i64 %step, %shift
  br label %stride.done
unit:
  %is.unit = icmp eq i64 %step, %itemsize
  %unit.good = or i1 %is.unit, %short
  %unit.bad = xor i1 %unit.good, true
  br label %stride.done
dense:
  %want = shl i64 %packed, %shift
  %is.dense = icmp eq i64 %step, %want
  %dense.good = or i1 %is.dense, %short
  %dense.bad = xor i1 %dense.good, true
  br label %stride.done
stride.done:
  %final = phi i64 [ %elements, %any ], [ 1, %unit ], [ %packed, %dense ]
  %off = phi i1 [ %bad, %any ], [ %unit.bad, %unit ], [ %dense.bad, %dense ]
  ; Elements of what is written must not share memory: each step reaches beyond all that lies inside it.
  %within = icmp sle i64 %final, %span
  %folded0 = and i1 %within, %is.written
  %folded1 = xor i1 %short, true
  %folded = and i1 %folded0, %folded1
  %wrong0 = or i1 %wrong, %off
  %wrong1 = or i1 %wrong0, %folded
  %out.p = getelementptr i64, ptr %strides, i64 %k
  store i64 %final, ptr %out.p
  %packed1 = mul i64 %final, %dim
  %last = sub i64 %dim, 1
  %reach = mul i64 %last, %final
  %span1 = add i64 %span, %reach
  %none = icmp eq i64 %dim, 0
  %empty1 = or i1 %empty, %none
  br label %check
range:
  %begin = ptrtoint ptr %address to i64
  %count = add i64 %span, 1
  %bytes = shl i64 %count, %shift
  %end = add i64 %begin, %bytes
  %lo.v = select i1 %empty, i64 0, i64 %begin
  %hi.v = select i1 %empty, i64 0, i64 %end
  store i64 %lo.v, ptr %lo
  store i64 %hi.v, ptr %hi
  %right = xor i1 %wrong, true
  %good = or i1 %right, %empty                     ; the strides of an empty array do not matter
  ret i1 %good
no:
  ret i1 false
}

; Puts a Python float, int or bool into a scalar slot. False: not for the fast path.
define internal i1 @scalar(ptr %table, ptr %record, ptr %object, ptr %slot) {
entry:
  %overflow = alloca i32
  %type = call ptr @item(ptr %object, i64 8)
  %kind = call i64 @word(ptr %record, i64 SCALAR.kind)
  switch i64 %kind, label %no [ i64 0, label %real
                                i64 1, label %real
                                i64 2, label %bool
                                i64 3, label %integer ]
bool:
  %true = call ptr @item(ptr %table, i64 HEAD.true)
  %false = call ptr @item(ptr %table, i64 HEAD.false)
  %is.true = icmp eq ptr %object, %true
  %is.false = icmp eq ptr %object, %false
  %flag = zext i1 %is.true to i64
  store i64 %flag, ptr %slot
  %is.bool = or i1 %is.true, %is.false
  ret i1 %is.bool
real:
  %float = call ptr @item(ptr %table, i64 HEAD.float)
  %is.float = icmp eq ptr %type, %float
  br i1 %is.float, label %read, label %integer
read:
  %value.p = getelementptr i8, ptr %object, i64 16
  %read.v = load double, ptr %value.p
  br label %floating
integer:
  %int = call ptr @item(ptr %table, i64 HEAD.int)
  %is.int = icmp eq ptr %type, %int
  br i1 %is.int, label %convert, label %no
convert:
  store i32 0, ptr %overflow
  %n = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  %lo = call i64 @word(ptr %record, i64 SCALAR.lo)
  %hi = call i64 @word(ptr %record, i64 SCALAR.hi)
  %above = icmp sge i64 %n, %lo
  %below = icmp sle i64 %n, %hi
  %inside0 = and i1 %above, %below
  %inside = and i1 %inside0, %fits
  br i1 %inside, label %number, label %no
number:
  %whole = icmp eq i64 %kind, 3
  br i1 %whole, label %store.int, label %widen
store.int:
  store i64 %n, ptr %slot
  ret i1 true
widen:                                             ; lo..hi are such that this is exact
  %wide = sitofp i64 %n to double
  br label %floating
floating:
  %x = phi double [ %read.v, %read ], [ %wide, %widen ]
  %double = icmp eq i64 %kind, 0
  br i1 %double, label %store.double, label %narrow
store.double:
  store double %x, ptr %slot
  ret i1 true
narrow:
  %y = fptrunc double %x to float
  %size.y = call float @llvm.fabs.f32(float %y)
  %size.x = call double @llvm.fabs.f64(double %x)
  %inf.y = fcmp oeq float %size.y, 0x7FF0000000000000
  %fin.x = fcmp one double %size.x, 0x7FF0000000000000
  %lost = and i1 %inf.y, %fin.x                    ; too large for f32: the slow path decides
  br i1 %lost, label %no, label %store.float
store.float:
  store i64 0, ptr %slot
  store float %y, ptr %slot
  ret i1 true
no:
  ret i1 false
}

define internal void @drop(ptr %made, ptr %count) {
entry:
  %n = load i64, ptr %count
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %i1, %one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %out
one:
  %p = getelementptr ptr, ptr %made, i64 %i
  %v = load ptr, ptr %p
  call void @Py_DecRef(ptr %v)
  %i1 = add i64 %i, 1
  br label %check
out:
  ret void
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
