"""The parts of the call from Python that arrays need, as LLVM IR: extents, checking an array, making an output."""

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
declare void @PyErr_Clear()
declare ptr @PyFloat_FromDouble(double)
declare i32 @PyUnicode_Compare(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.ssub.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)

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

; What the program at byte %at of the table gives (see table.OPERATIONS). False: a size is not
; known, or something does not fit into 64 bits.
define internal i1 @work(ptr %table, i64 %at, ptr %sizes, ptr %slots, ptr %result) {
entry:
  %stack = alloca [MAX_DEPTH x i64], align 16
  %program = getelementptr i8, ptr %table, i64 %at
  %n = call i64 @word(ptr %program, i64 0)
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %i1, %put ]
  %sp = phi i64 [ 0, %entry ], [ %sp1, %put ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %step, label %done
step:
  %i1 = add i64 %i, 1
  %pair = shl i64 %i, 4
  %op.at = add i64 %pair, 8
  %op = call i64 @word(ptr %program, i64 %op.at)
  %value.at = add i64 %pair, 16
  %value = call i64 @word(ptr %program, i64 %value.at)
  %top = sub i64 %sp, 1
  %second = sub i64 %sp, 2
  %third = sub i64 %sp, 3
  switch i64 %op, label %bad [ i64 OPERATION.const, label %const
                               i64 OPERATION.size, label %size
                               i64 OPERATION.scalar, label %scalar
                               i64 OPERATION.neg, label %neg
                               i64 OPERATION.abs, label %abs
                               i64 OPERATION.select, label %select
                               i64 OPERATION.add, label %two
                               i64 OPERATION.sub, label %two
                               i64 OPERATION.mul, label %two
                               i64 OPERATION.floordiv, label %two
                               i64 OPERATION.mod, label %two
                               i64 OPERATION.min, label %two
                               i64 OPERATION.max, label %two
                               i64 OPERATION.eq, label %two
                               i64 OPERATION.ne, label %two
                               i64 OPERATION.lt, label %two
                               i64 OPERATION.le, label %two
                               i64 OPERATION.gt, label %two
                               i64 OPERATION.ge, label %two ]
const:
  br label %put
size:
  %size.p = getelementptr i64, ptr %sizes, i64 %value
  %size.v = load i64, ptr %size.p
  %unknown = icmp slt i64 %size.v, 0
  br i1 %unknown, label %bad, label %put
scalar:
  %scalar.p = getelementptr i64, ptr %slots, i64 %value
  %scalar.v = load i64, ptr %scalar.p
  br label %put
neg:
  %neg.p = getelementptr i64, ptr %stack, i64 %top
  %neg.a = load i64, ptr %neg.p
  br label %negate
abs:
  %abs.p = getelementptr i64, ptr %stack, i64 %top
  %abs.a = load i64, ptr %abs.p
  %is.minus = icmp slt i64 %abs.a, 0
  br i1 %is.minus, label %negate, label %put
negate:
  %plus = phi i64 [ %neg.a, %neg ], [ %abs.a, %abs ]
  %minus = call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 0, i64 %plus)
  br label %checked
select:
  %cond.p = getelementptr i64, ptr %stack, i64 %third
  %cond = load i64, ptr %cond.p
  %yes.p = getelementptr i64, ptr %stack, i64 %second
  %yes = load i64, ptr %yes.p
  %no.p = getelementptr i64, ptr %stack, i64 %top
  %no = load i64, ptr %no.p
  %holds = icmp ne i64 %cond, 0
  %chosen = select i1 %holds, i64 %yes, i64 %no
  br label %put
two:
  %a.p = getelementptr i64, ptr %stack, i64 %second
  %a = load i64, ptr %a.p
  %b.p = getelementptr i64, ptr %stack, i64 %top
  %b = load i64, ptr %b.p
  switch i64 %op, label %bad [ i64 OPERATION.add, label %add
                               i64 OPERATION.sub, label %sub
                               i64 OPERATION.mul, label %mul
                               i64 OPERATION.floordiv, label %div
                               i64 OPERATION.mod, label %div
                               i64 OPERATION.min, label %min
                               i64 OPERATION.max, label %max
                               i64 OPERATION.eq, label %eq
                               i64 OPERATION.ne, label %ne
                               i64 OPERATION.lt, label %lt
                               i64 OPERATION.le, label %le
                               i64 OPERATION.gt, label %gt
                               i64 OPERATION.ge, label %ge ]
add:
  %sum = call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %a, i64 %b)
  br label %checked
sub:
  %difference = call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 %a, i64 %b)
  br label %checked
mul:
  %product = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %a, i64 %b)
  br label %checked
checked:
  %at.checked = phi i64 [ %top, %negate ], [ %second, %add ], [ %second, %sub ], [ %second, %mul ]
  %pair.v = phi { i64, i1 } [ %minus, %negate ], [ %sum, %add ], [ %difference, %sub ], [ %product, %mul ]
  %exact = extractvalue { i64, i1 } %pair.v, 0
  %over = extractvalue { i64, i1 } %pair.v, 1
  br i1 %over, label %bad, label %put
div:
  %zero = icmp eq i64 %b, 0                        ; by 0: 0, as in index arithmetic
  br i1 %zero, label %put, label %nonzero
nonzero:
  %all.ones = icmp eq i64 %b, -1
  %smallest = icmp eq i64 %a, -9223372036854775808
  %large = and i1 %all.ones, %smallest
  br i1 %large, label %bad, label %divide
divide:
  %q = sdiv i64 %a, %b
  %r = srem i64 %a, %b
  %inexact = icmp ne i64 %r, 0
  %mixed = xor i64 %r, %b
  %apart = icmp slt i64 %mixed, 0
  %down = and i1 %inexact, %apart                  ; towards minus infinity
  %q.less = sub i64 %q, 1
  %q.floor = select i1 %down, i64 %q.less, i64 %q
  %r.more = add i64 %r, %b
  %r.floor = select i1 %down, i64 %r.more, i64 %r
  %is.div = icmp eq i64 %op, OPERATION.floordiv
  %part = select i1 %is.div, i64 %q.floor, i64 %r.floor
  br label %put
min:
  %less = icmp slt i64 %a, %b
  %smaller = select i1 %less, i64 %a, i64 %b
  br label %put
max:
  %more.v = icmp sgt i64 %a, %b
  %larger = select i1 %more.v, i64 %a, i64 %b
  br label %put
eq:
  %is.eq = icmp eq i64 %a, %b
  br label %truth
ne:
  %is.ne = icmp ne i64 %a, %b
  br label %truth
lt:
  %is.lt = icmp slt i64 %a, %b
  br label %truth
le:
  %is.le = icmp sle i64 %a, %b
  br label %truth
gt:
  %is.gt = icmp sgt i64 %a, %b
  br label %truth
ge:
  %is.ge = icmp sge i64 %a, %b
  br label %truth
truth:
  %is = phi i1 [ %is.eq, %eq ], [ %is.ne, %ne ], [ %is.lt, %lt ], [ %is.le, %le ], [ %is.gt, %gt ], [ %is.ge, %ge ]
  %bit = zext i1 %is to i64
  br label %put
put:
  %v = phi i64 [ %value, %const ], [ %size.v, %size ], [ %scalar.v, %scalar ], [ %abs.a, %abs ], [ %chosen, %select ],
               [ %exact, %checked ], [ 0, %div ], [ %part, %divide ], [ %smaller, %min ], [ %larger, %max ],
               [ %bit, %truth ]
  %to = phi i64 [ %sp, %const ], [ %sp, %size ], [ %sp, %scalar ], [ %top, %abs ], [ %third, %select ],
                [ %at.checked, %checked ], [ %second, %div ], [ %second, %divide ], [ %second, %min ], [ %second, %max ],
                [ %second, %truth ]
  %to.p = getelementptr i64, ptr %stack, i64 %to
  store i64 %v, ptr %to.p
  %sp1 = add i64 %to, 1
  br label %check
done:
  %first = load i64, ptr %stack
  store i64 %first, ptr %result
  ret i1 true
bad:
  ret i1 false
}

; The extent that an axis record asks for, -1 when it can't be worked out.
define internal i64 @extent(ptr %table, ptr %axis, ptr %sizes, ptr %slots) {
entry:
  %result = alloca i64
  %kind = call i64 @word(ptr %axis, i64 AXIS.kind)
  %value = call i64 @word(ptr %axis, i64 AXIS.value)
  switch i64 %kind, label %program [ i64 0, label %symbol
                                     i64 1, label %constant ]
symbol:
  %place = getelementptr i64, ptr %sizes, i64 %value
  %size = load i64, ptr %place
  ret i64 %size
constant:
  ret i64 %value
program:
  %good = call i1 @work(ptr %table, i64 %value, ptr %sizes, ptr %slots, ptr %result)
  %found = load i64, ptr %result
  %worked = select i1 %good, i64 %found, i64 -1
  ret i64 %worked
}

; Are the extents that are worked out those of an array?
define internal i1 @agrees(ptr %table, ptr %record, ptr %array, ptr %sizes, ptr %slots) {
entry:
  %rank = call i64 @word(ptr %record, i64 ARRAY.rank)
  %first = call i64 @word(ptr %record, i64 ARRAY.axis)
  %axis_at = call i64 @word(ptr %table, i64 HEAD.axis_at)
  %axes = getelementptr i8, ptr %table, i64 %axis_at
  %dims = call ptr @item(ptr %array, i64 32)
  br label %check
check:
  %d = phi i64 [ 0, %entry ], [ %d1, %next ]
  %more = icmp slt i64 %d, %rank
  br i1 %more, label %one, label %yes
one:
  %number = add i64 %first, %d
  %offset = mul i64 %number, AXIS.bytes
  %axis = getelementptr i8, ptr %axes, i64 %offset
  %kind = call i64 @word(ptr %axis, i64 AXIS.kind)
  %worked = icmp eq i64 %kind, 2
  br i1 %worked, label %compare, label %next
compare:
  %want = call i64 @extent(ptr %table, ptr %axis, ptr %sizes, ptr %slots)
  %dim.p = getelementptr i64, ptr %dims, i64 %d
  %dim = load i64, ptr %dim.p
  %same = icmp eq i64 %want, %dim
  br i1 %same, label %next, label %no
next:
  %d1 = add i64 %d, 1
  br label %check
yes:
  ret i1 true
no:
  ret i1 false
}

; A new output array (a new reference); null with an exception set, or without one when an extent is not known.
define internal ptr @create(ptr %table, ptr %record, ptr %sizes, ptr %slots) {
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
  %extent = call i64 @extent(ptr %table, ptr %axis, ptr %sizes, ptr %slots)
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
  %memmap = call ptr @item(ptr %table, i64 HEAD.memmap)
  %exact = icmp eq ptr %type, %ndarray
  %mapped = icmp eq ptr %type, %memmap
  %known = or i1 %exact, %mapped
  br i1 %known, label %head, label %no
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
  %kind = call i64 @word(ptr %record.a, i64 AXIS.kind)
  %value = call i64 @word(ptr %record.a, i64 AXIS.value)
  %class = call i64 @word(ptr %record.a, i64 AXIS.stride)
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
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
