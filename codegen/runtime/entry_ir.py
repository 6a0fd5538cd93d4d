"""The call from Python as LLVM IR: one function that serves every kernel, driven by a table of i64.

The function is a METH_FASTCALL | METH_KEYWORDS builtin. Its `self` is a tuple whose first item is a bytes
object, the table (layout below); the other items only keep things alive. It reads the structs of ndarray,
tuple, bytes and float directly; `layout.py` proves the offsets against real objects before this code is used.
Whatever it can't take goes to the kernel's slow callable, with the arguments as they came.

Being driven by a table costs some nanoseconds per array, and saves compiling and loading code for every
kernel.
"""

from __future__ import annotations

MAX_ARRAYS, MAX_AXES, MAX_SIZES, MAX_SCALARS = 32, 128, 64, 64

# Slots of the table's head (i64 each).
HEAD = (
    "kernel",  # address of the kernel
    "context",  # address of the tw_context
    "positional",  # number of positional arguments
    "arrays",  # number of arrays (data slots)
    "scalars",  # number of scalars
    "sizes",  # number of size symbols
    "outputs",  # number of outputs
    "out_tuple",  # 1: `out` and the result are tuples
    "allocate",  # address of PyArray_Empty, or 0: a call without `out` is slow
    "out_name",  # the interned string "out"
    "slow",  # the slow callable
    "fail",  # called with a return code of the kernel that is an error of its own; raises
    "ndarray",  # types and singletons, compared by address
    "tuple",
    "float",
    "int",
    "true",
    "false",
    "none",
    "axis_at",  # byte offsets from the start of the table
    "scalar_at",
    "linear",  # number of axes whose extent is a linear expression
)
# Array records follow the head.
ARRAY = (
    "source",  # position among the arguments; -1: output; -2: the object in `which`
    "which",  # number of the output, or address of a constant array
    "rank",
    "descr",  # address of the dtype singleton
    "flags",  # bits of ndarray.flags that must be set
    "shift",  # log2 of the item size
    "written",  # 1: output or inout
    "axis",  # number of its first axis
)
# Axis records: kind 0: extent is size symbol `value`; 1: extent is `value`; 2: a linear expression at byte
# `value` of the table (constant, number of terms, then pairs of coefficient and size symbol).
# stride: 0 any (not negative), 1 one element, 2 the inner axis' stride times its extent.
AXIS = ("kind", "value", "stride")
# Scalar records. kind: 0 f64, 1 f32, 2 bool, 3 integer within lo..hi.
SCALAR = ("position", "kind", "lo", "hi")

FUNCTIONS = (
    "PyObject_Vectorcall",
    "PyObject_CallOneArg",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_FromLong",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyErr_Occurred",
    "Py_IncRef",
    "Py_DecRef",
)


_TEXT = """
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
  %wrong1 = or i1 %wrong, %off
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

define ptr @tw_entry(ptr %self, ptr %args, i64 %count, ptr %names) {
entry:
  %data = alloca [MAX_ARRAYS x ptr], align 16
  %lo = alloca [MAX_ARRAYS x i64], align 16
  %hi = alloca [MAX_ARRAYS x i64], align 16
  %strides = alloca [MAX_AXES x i64], align 16
  %sizes = alloca [MAX_SIZES x i64], align 16
  %slots = alloca [MAX_SCALARS x i64], align 16
  %made = alloca [MAX_ARRAYS x ptr], align 16      ; outputs created here
  %made.n = alloca i64
  %out.slot = alloca ptr                           ; what is returned when `out` was given
  store i64 0, ptr %made.n
  %bytes = call ptr @item(ptr %self, i64 24)       ; item 0 of a tuple
  %table = getelementptr i8, ptr %bytes, i64 32    ; content of a bytes object
  %positional = call i64 @word(ptr %table, i64 HEAD.positional)
  %right.count = icmp eq i64 %count, %positional
  br i1 %right.count, label %keywords, label %slow
keywords:
  %outputs = call i64 @word(ptr %table, i64 HEAD.outputs)
  %out.tuple = call i64 @word(ptr %table, i64 HEAD.out_tuple)
  %plain = icmp eq ptr %names, null
  br i1 %plain, label %no.out, label %named
no.out:
  %allocate = call i64 @word(ptr %table, i64 HEAD.allocate)
  %able = icmp ne i64 %allocate, 0
  br i1 %able, label %prepare, label %slow
named:
  %names.n = call i64 @word(ptr %names, i64 16)    ; length of a tuple
  %one.name = icmp eq i64 %names.n, 1
  br i1 %one.name, label %name, label %slow
name:
  %name.0 = call ptr @item(ptr %names, i64 24)
  %out.name = call ptr @item(ptr %table, i64 HEAD.out_name)
  %is.out = icmp eq ptr %name.0, %out.name
  %some.outputs = icmp sgt i64 %outputs, 0
  %usable = and i1 %is.out, %some.outputs
  br i1 %usable, label %take.out, label %slow
take.out:
  %out.p = getelementptr ptr, ptr %args, i64 %count
  %out.object = load ptr, ptr %out.p
  store ptr %out.object, ptr %out.slot
  %single = icmp eq i64 %out.tuple, 0
  br i1 %single, label %prepare, label %unpack
unpack:
  %out.type = call ptr @item(ptr %out.object, i64 8)
  %tuple = call ptr @item(ptr %table, i64 HEAD.tuple)
  %is.tuple = icmp eq ptr %out.type, %tuple
  br i1 %is.tuple, label %measure, label %slow
measure:
  %out.n = call i64 @word(ptr %out.object, i64 16)
  %right.n = icmp eq i64 %out.n, %outputs
  %items = getelementptr i8, ptr %out.object, i64 24
  br i1 %right.n, label %prepare, label %slow
prepare:
  ; where the output objects are: the argument itself, or the items of the tuple, or (null) to be created
  %out.at = phi ptr [ null, %no.out ], [ %out.p, %take.out ], [ %items, %measure ]
  %sizes.n = call i64 @word(ptr %table, i64 HEAD.sizes)
  %sizes.b = shl i64 %sizes.n, 3
  call void @llvm.memset.p0.i64(ptr %sizes, i8 -1, i64 %sizes.b, i1 false)
  %arrays.n = call i64 @word(ptr %table, i64 HEAD.arrays)
  %arrays = getelementptr i8, ptr %table, i64 HEAD.bytes
  %creating = icmp eq ptr %out.at, null
  br label %array.check
array.check:
  %i = phi i64 [ 0, %prepare ], [ %i1, %array.next ]
  %array.more = icmp slt i64 %i, %arrays.n
  br i1 %array.more, label %array, label %linear.begin
array:
  %record.o = mul i64 %i, ARRAY.bytes
  %record = getelementptr i8, ptr %arrays, i64 %record.o
  %source = call i64 @word(ptr %record, i64 ARRAY.source)
  switch i64 %source, label %argument [ i64 -1, label %output
                                        i64 -2, label %constant ]
argument:
  %argument.p = getelementptr ptr, ptr %args, i64 %source
  %argument.v = load ptr, ptr %argument.p
  br label %have
constant:
  %constant.v = call ptr @item(ptr %record, i64 ARRAY.which)
  br label %have
output:
  br i1 %creating, label %make, label %given
given:
  %which = call i64 @word(ptr %record, i64 ARRAY.which)
  %given.p = getelementptr ptr, ptr %out.at, i64 %which
  %given.v = load ptr, ptr %given.p
  br label %have
make:
  %new = call ptr @create(ptr %table, ptr %record, ptr %sizes)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %undo.error, label %made.one
made.one:
  %made.k = load i64, ptr %made.n
  %made.p = getelementptr ptr, ptr %made, i64 %made.k
  store ptr %new, ptr %made.p
  %made.k1 = add i64 %made.k, 1
  store i64 %made.k1, ptr %made.n
  br label %have
have:
  %object = phi ptr [ %argument.v, %argument ], [ %constant.v, %constant ],
                    [ %given.v, %given ], [ %new, %made.one ]
  %axis.0 = call i64 @word(ptr %record, i64 ARRAY.axis)
  %data.i = getelementptr ptr, ptr %data, i64 %i
  %lo.i = getelementptr i64, ptr %lo, i64 %i
  %hi.i = getelementptr i64, ptr %hi, i64 %i
  %strides.i = getelementptr i64, ptr %strides, i64 %axis.0
  %good = call i1 @admit(ptr %table, ptr %record, ptr %object,
                       ptr %sizes, ptr %data.i, ptr %strides.i, ptr %lo.i, ptr %hi.i)
  br i1 %good, label %array.next, label %undo
array.next:
  %i1 = add i64 %i, 1
  br label %array.check

linear.begin:                                      ; extents that are expressions, all sizes being known
  %linear.n = call i64 @word(ptr %table, i64 HEAD.linear)
  %any.linear = icmp ne i64 %linear.n, 0
  br i1 %any.linear, label %linear.array, label %overlap.begin
linear.array:
  %l = phi i64 [ 0, %linear.begin ], [ %l1, %linear.next ]
  %l.more = icmp slt i64 %l, %arrays.n
  br i1 %l.more, label %linear.object, label %overlap.begin
linear.object:
  %l.o = mul i64 %l, ARRAY.bytes
  %l.record = getelementptr i8, ptr %arrays, i64 %l.o
  %l.axis = call i64 @word(ptr %l.record, i64 ARRAY.axis)
  %l.rank = call i64 @word(ptr %l.record, i64 ARRAY.rank)
  %l.source = call i64 @word(ptr %l.record, i64 ARRAY.source)
  %l.axis_at = call i64 @word(ptr %table, i64 HEAD.axis_at)
  switch i64 %l.source, label %l.argument [ i64 -1, label %l.output
                                            i64 -2, label %l.constant ]
l.argument:
  %l.argument.p = getelementptr ptr, ptr %args, i64 %l.source
  %l.argument.v = load ptr, ptr %l.argument.p
  br label %l.have
l.constant:
  %l.constant.v = call ptr @item(ptr %l.record, i64 ARRAY.which)
  br label %l.have
l.output:
  br i1 %creating, label %linear.next, label %l.given
l.given:
  %l.which = call i64 @word(ptr %l.record, i64 ARRAY.which)
  %l.given.p = getelementptr ptr, ptr %out.at, i64 %l.which
  %l.given.v = load ptr, ptr %l.given.p
  br label %l.have
l.have:
  %l.object = phi ptr [ %l.argument.v, %l.argument ], [ %l.constant.v, %l.constant ], [ %l.given.v, %l.given ]
  %l.dims = call ptr @item(ptr %l.object, i64 32)
  br label %l.check
l.check:
  %ld = phi i64 [ 0, %l.have ], [ %ld1, %l.good ]
  %ld.more = icmp slt i64 %ld, %l.rank
  br i1 %ld.more, label %l.one, label %linear.next
l.one:
  %l.number = add i64 %l.axis, %ld
  %l.offset0 = mul i64 %l.number, AXIS.bytes
  %l.offset = add i64 %l.offset0, %l.axis_at
  %l.axis.r = getelementptr i8, ptr %table, i64 %l.offset
  %l.want = call i64 @extent(ptr %table, ptr %l.axis.r, ptr %sizes)
  %l.dim.p = getelementptr i64, ptr %l.dims, i64 %ld
  %l.dim = load i64, ptr %l.dim.p
  %l.same = icmp eq i64 %l.want, %l.dim
  br i1 %l.same, label %l.good, label %undo
l.good:
  %ld1 = add i64 %ld, 1
  br label %l.check
linear.next:
  %l1 = add i64 %l, 1
  br label %linear.array

overlap.begin:                                     ; what is written shares no byte with any other array
  br label %w.check
w.check:
  %w = phi i64 [ 0, %overlap.begin ], [ %w1, %w.next ]
  %w.more = icmp slt i64 %w, %arrays.n
  br i1 %w.more, label %w.array, label %scalars.begin
w.array:
  %w.o = mul i64 %w, ARRAY.bytes
  %w.record = getelementptr i8, ptr %arrays, i64 %w.o
  %written = call i64 @word(ptr %w.record, i64 ARRAY.written)
  %is.written = icmp ne i64 %written, 0
  br i1 %is.written, label %w.range, label %w.next
w.range:
  %w.lo.p = getelementptr i64, ptr %lo, i64 %w
  %w.lo = load i64, ptr %w.lo.p
  %w.hi.p = getelementptr i64, ptr %hi, i64 %w
  %w.hi = load i64, ptr %w.hi.p
  br label %o.check
o.check:
  %o = phi i64 [ 0, %w.range ], [ %o1, %o.next ]
  %o.more = icmp slt i64 %o, %arrays.n
  br i1 %o.more, label %o.array, label %w.next
o.array:
  %o.lo.p = getelementptr i64, ptr %lo, i64 %o
  %o.lo = load i64, ptr %o.lo.p
  %o.hi.p = getelementptr i64, ptr %hi, i64 %o
  %o.hi = load i64, ptr %o.hi.p
  %before = icmp ult i64 %w.lo, %o.hi
  %behind = icmp ult i64 %o.lo, %w.hi
  %other = icmp ne i64 %o, %w
  %touch0 = and i1 %before, %behind
  %touch = and i1 %touch0, %other
  br i1 %touch, label %undo, label %o.next
o.next:
  %o1 = add i64 %o, 1
  br label %o.check
w.next:
  %w1 = add i64 %w, 1
  br label %w.check

scalars.begin:
  %scalars.n = call i64 @word(ptr %table, i64 HEAD.scalars)
  %scalar_at = call i64 @word(ptr %table, i64 HEAD.scalar_at)
  %scalars = getelementptr i8, ptr %table, i64 %scalar_at
  br label %s.check
s.check:
  %s = phi i64 [ 0, %scalars.begin ], [ %s1, %s.next ]
  %s.more = icmp slt i64 %s, %scalars.n
  br i1 %s.more, label %s.one, label %run
s.one:
  %s.o = mul i64 %s, SCALAR.bytes
  %s.record = getelementptr i8, ptr %scalars, i64 %s.o
  %s.position = call i64 @word(ptr %s.record, i64 SCALAR.position)
  %s.p = getelementptr ptr, ptr %args, i64 %s.position
  %s.object = load ptr, ptr %s.p
  %s.slot = getelementptr i64, ptr %slots, i64 %s
  %s.good = call i1 @scalar(ptr %table, ptr %s.record, ptr %s.object, ptr %s.slot)
  br i1 %s.good, label %s.next, label %undo
s.next:
  %s1 = add i64 %s, 1
  br label %s.check

run:
  %kernel = call ptr @item(ptr %table, i64 HEAD.kernel)
  %context = call ptr @item(ptr %table, i64 HEAD.context)
  %thread = call ptr @PyEval_SaveThread()
  %code = call i32 %kernel(ptr %data, ptr %sizes, ptr %strides, ptr %slots, ptr %context)
  call void @PyEval_RestoreThread(ptr %thread)
  switch i32 %code, label %refused [ i32 0, label %result ]
refused:
  ; A requirement does not hold: nothing has been written, the slow path finds out which and says so.
  %requirement = icmp sge i32 %code, 100
  br i1 %requirement, label %undo, label %broken
broken:
  call void @drop(ptr %made, ptr %made.n)
  %code64 = sext i32 %code to i64
  %number = call ptr @PyLong_FromLong(i64 %code64)
  %lost = icmp eq ptr %number, null
  br i1 %lost, label %error, label %tell
tell:
  %fail = call ptr @item(ptr %table, i64 HEAD.fail)
  %told = call ptr @PyObject_CallOneArg(ptr %fail, ptr %number)
  call void @Py_DecRef(ptr %number)
  ret ptr %told

result:
  br i1 %creating, label %created, label %return.out
return.out:
  %out.v = load ptr, ptr %out.slot
  call void @Py_IncRef(ptr %out.v)
  ret ptr %out.v
created:
  %nothing = icmp eq i64 %outputs, 0
  br i1 %nothing, label %return.none, label %pick
return.none:
  %none = call ptr @item(ptr %table, i64 HEAD.none)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
pick:
  %bundle = icmp ne i64 %out.tuple, 0
  br i1 %bundle, label %wrap, label %return.one
return.one:
  %only = load ptr, ptr %made
  ret ptr %only
wrap:
  %wrapped = call ptr @PyTuple_New(i64 %outputs)
  %no.tuple = icmp eq ptr %wrapped, null
  br i1 %no.tuple, label %undo.error, label %fill
fill:
  %f = phi i64 [ 0, %wrap ], [ %f1, %fill ]
  %f.p = getelementptr ptr, ptr %made, i64 %f
  %f.v = load ptr, ptr %f.p
  call i32 @PyTuple_SetItem(ptr %wrapped, i64 %f, ptr %f.v)
  %f1 = add i64 %f, 1
  %f.more = icmp slt i64 %f1, %outputs
  br i1 %f.more, label %fill, label %return.tuple
return.tuple:
  ret ptr %wrapped

undo.error:                                        ; creating failed, with an exception or for unknown sizes
  call void @drop(ptr %made, ptr %made.n)
  %raised = call ptr @PyErr_Occurred()
  %is.raised = icmp ne ptr %raised, null
  br i1 %is.raised, label %error, label %slow
error:
  ret ptr null
undo:
  call void @drop(ptr %made, ptr %made.n)
  br label %slow
slow:
  %slow.f = call ptr @item(ptr %table, i64 HEAD.slow)
  %slow.r = call ptr @PyObject_Vectorcall(ptr %slow.f, ptr %args, i64 %count, ptr %names)
  ret ptr %slow.r
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


def text() -> str:
    """IR of the entry function `tw_entry`."""
    result = _TEXT
    for name, fields in (("HEAD", HEAD), ("ARRAY", ARRAY), ("AXIS", AXIS), ("SCALAR", SCALAR)):
        # longest first, so that no name is replaced inside another
        for number in sorted(range(len(fields)), key=lambda i: -len(fields[i])):
            result = result.replace(f"{name}.{fields[number]}", str(8 * number))
        result = result.replace(f"{name}.bytes", str(8 * len(fields)))
    for name, value in (
        ("MAX_ARRAYS", MAX_ARRAYS), ("MAX_AXES", MAX_AXES), ("MAX_SIZES", MAX_SIZES), ("MAX_SCALARS",
        MAX_SCALARS)
    ):  # fmt: skip
        result = result.replace(name, str(value))
    return result
