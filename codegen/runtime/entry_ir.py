"""The call from Python as LLVM IR: one function that serves every kernel, driven by a table of i64.

The function is a METH_FASTCALL | METH_KEYWORDS builtin. Its `self` is a tuple whose first item is a bytes
object, the table (see table.py); the other items only keep things alive. It reads the structs of ndarray,
tuple, bytes and float directly; `layout.py` proves the offsets against real objects before this code is used.
Whatever it can't take goes to the kernel's slow callable, with the arguments as they came.

Being driven by a table costs some nanoseconds per array, and saves compiling and loading code for every
kernel.
"""

from __future__ import annotations

from tilewright.codegen.runtime import entry_parts_ir, table

_TEXT = """
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
"""


def text() -> str:
    """IR of the entry function `tw_entry`."""
    return table.fill(entry_parts_ir.TEXT + _TEXT)
