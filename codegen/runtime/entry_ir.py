"""The call from Python as LLVM IR: one function that serves every kernel, driven by a table of i64.

The function is a METH_FASTCALL | METH_KEYWORDS builtin. Its `self` is a tuple whose first item is a bytes
object, the table (see table.py); the other items only keep things alive. It reads the structs of ndarray,
tuple, bytes and float directly; `layout.py` proves the offsets against real objects before this code is used.
Whatever it can't take goes to the kernel's slow callable, with the arguments as they came.

Being driven by a table costs some nanoseconds per array, and saves compiling and loading code for every
kernel.
"""

from __future__ import annotations

from tilewright.codegen.runtime import entry_numbers_ir, entry_parts_ir, table

_TEXT = """
; The number of the parameter of a name, -1 for `out`, -2 for none.
define internal i64 @find(ptr %table, ptr %name) {
entry:
  %out.name = call ptr @item(ptr %table, i64 HEAD.out_name)
  %n = call i64 @word(ptr %table, i64 HEAD.params)
  %name_at = call i64 @word(ptr %table, i64 HEAD.name_at)
  %known = getelementptr i8, ptr %table, i64 %name_at
  %is.out = icmp eq ptr %name, %out.name
  br i1 %is.out, label %out, label %same
same:                                              ; names in a program are interned
  %i = phi i64 [ 0, %entry ], [ %i1, %same.one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %same.one, label %equal.out
same.one:
  %p = getelementptr ptr, ptr %known, i64 %i
  %k = load ptr, ptr %p
  %i1 = add i64 %i, 1
  %is = icmp eq ptr %k, %name
  br i1 %is, label %same.found, label %same
same.found:
  ret i64 %i
equal.out:
  %order.out = call i32 @PyUnicode_Compare(ptr %out.name, ptr %name)
  %equals.out = icmp eq i32 %order.out, 0
  br i1 %equals.out, label %out, label %equal
equal:
  %j = phi i64 [ 0, %equal.out ], [ %j1, %equal.one ]
  %left = icmp slt i64 %j, %n
  br i1 %left, label %equal.one, label %none
equal.one:
  %q = getelementptr ptr, ptr %known, i64 %j
  %l = load ptr, ptr %q
  %j1 = add i64 %j, 1
  %order = call i32 @PyUnicode_Compare(ptr %l, ptr %name)
  %equals = icmp eq i32 %order, 0
  br i1 %equals, label %equal.found, label %equal
equal.found:
  ret i64 %j
out:
  ret i64 -1
none:
  ret i64 -2
}

; Arguments by position and by name into one frame. False: too many, twice, unknown or missing ones.
define internal i1 @gather(ptr %table, ptr %args, i64 %count, ptr %names, ptr %frame, ptr %out.slot) {
entry:
  %params = call i64 @word(ptr %table, i64 HEAD.params)
  %positional = call i64 @word(ptr %table, i64 HEAD.positional)
  %params.b = shl i64 %params, 3
  %count.b = shl i64 %count, 3
  %few = icmp sle i64 %count, %positional
  br i1 %few, label %copy, label %no
copy:
  call void @llvm.memset.p0.i64(ptr %frame, i8 0, i64 %params.b, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %frame, ptr %args, i64 %count.b, i1 false)
  %names.n = call i64 @word(ptr %names, i64 16)    ; length of a tuple
  %names.0 = getelementptr i8, ptr %names, i64 24
  %values = getelementptr ptr, ptr %args, i64 %count
  br label %check
check:
  %i = phi i64 [ 0, %copy ], [ %i1, %put ], [ %i1, %put.out ]
  %more = icmp slt i64 %i, %names.n
  br i1 %more, label %one, label %all
one:
  %name.p = getelementptr ptr, ptr %names.0, i64 %i
  %name = load ptr, ptr %name.p
  %value.p = getelementptr ptr, ptr %values, i64 %i
  %value = load ptr, ptr %value.p
  %i1 = add i64 %i, 1
  %k = call i64 @find(ptr %table, ptr %name)
  switch i64 %k, label %param [ i64 -1, label %put.out
                                i64 -2, label %no ]
put.out:
  store ptr %value, ptr %out.slot
  br label %check
param:
  %place = getelementptr ptr, ptr %frame, i64 %k
  %before = load ptr, ptr %place
  %free = icmp eq ptr %before, null
  br i1 %free, label %put, label %no
put:
  store ptr %value, ptr %place
  br label %check
all:
  %j = phi i64 [ 0, %check ], [ %j1, %have ]
  %left = icmp slt i64 %j, %params
  br i1 %left, label %have, label %yes
have:
  %got.p = getelementptr ptr, ptr %frame, i64 %j
  %got = load ptr, ptr %got.p
  %j1 = add i64 %j, 1
  %missing = icmp eq ptr %got, null
  br i1 %missing, label %no, label %all
yes:
  ret i1 true
no:
  ret i1 false
}

; The object of an array: an argument, a constant, what `out` holds; null for an output that is to be made.
define internal ptr @object(ptr %record, ptr %frame, ptr %outs) {
entry:
  %source = call i64 @word(ptr %record, i64 ARRAY.source)
  switch i64 %source, label %argument [ i64 -1, label %output
                                        i64 -2, label %constant ]
argument:
  %argument.p = getelementptr ptr, ptr %frame, i64 %source
  %argument.v = load ptr, ptr %argument.p
  ret ptr %argument.v
constant:
  %constant.v = call ptr @item(ptr %record, i64 ARRAY.which)
  ret ptr %constant.v
output:
  %new = icmp eq ptr %outs, null
  br i1 %new, label %none, label %given
given:
  %which = call i64 @word(ptr %record, i64 ARRAY.which)
  %given.p = getelementptr ptr, ptr %outs, i64 %which
  %given.v = load ptr, ptr %given.p
  ret ptr %given.v
none:
  ret ptr null
}

; Sizes that the call gives, as Python integers.
define internal i1 @take_sizes(ptr %table, ptr %frame, ptr %sizes) {
entry:
  %value = alloca i64
  %n = call i64 @word(ptr %table, i64 HEAD.given)
  %given_at = call i64 @word(ptr %table, i64 HEAD.given_at)
  %records = getelementptr i8, ptr %table, i64 %given_at
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %i1, %put ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %yes
one:
  %offset = mul i64 %i, GIVEN.bytes
  %record = getelementptr i8, ptr %records, i64 %offset
  %param = call i64 @word(ptr %record, i64 GIVEN.param)
  %size = call i64 @word(ptr %record, i64 GIVEN.size)
  %object.p = getelementptr ptr, ptr %frame, i64 %param
  %object = load ptr, ptr %object.p
  %kind = call i64 @number(ptr %table, ptr %object, ptr %value)
  %is.int = icmp eq i64 %kind, 1
  %v = load i64, ptr %value
  %usable = icmp ule i64 %v, 4611686018427387904   ; 2**62; negative ones are larger
  %good = and i1 %is.int, %usable
  br i1 %good, label %put, label %no
put:
  %place = getelementptr i64, ptr %sizes, i64 %size
  store i64 %v, ptr %place
  %i1 = add i64 %i, 1
  br label %check
yes:
  ret i1 true
no:
  ret i1 false
}

; Sizes that follow from axes that are more than a size.
define internal i1 @solve(ptr %table, ptr %frame, ptr %outs, ptr %sizes, ptr %slots) {
entry:
  %rest.slot = alloca i64
  %arrays = getelementptr i8, ptr %table, i64 HEAD.bytes
  %n = call i64 @word(ptr %table, i64 HEAD.solves)
  %solve_at = call i64 @word(ptr %table, i64 HEAD.solve_at)
  %records = getelementptr i8, ptr %table, i64 %solve_at
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %i1, %set ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %yes
one:
  %offset = mul i64 %i, SOLVE.bytes
  %record = getelementptr i8, ptr %records, i64 %offset
  %array = call i64 @word(ptr %record, i64 SOLVE.array)
  %array.o = mul i64 %array, ARRAY.bytes
  %array.record = getelementptr i8, ptr %arrays, i64 %array.o
  %object = call ptr @object(ptr %array.record, ptr %frame, ptr %outs)
  %dims = call ptr @item(ptr %object, i64 32)
  %axis = call i64 @word(ptr %record, i64 SOLVE.axis)
  %dim.p = getelementptr i64, ptr %dims, i64 %axis
  %dim = load i64, ptr %dim.p
  %rest.at = call i64 @word(ptr %record, i64 SOLVE.rest)
  %known = call i1 @work(ptr %table, i64 %rest.at, ptr %sizes, ptr %slots, ptr %rest.slot)
  br i1 %known, label %divide, label %no
divide:
  %rest = load i64, ptr %rest.slot
  %difference.v = call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 %dim, i64 %rest)
  %difference = extractvalue { i64, i1 } %difference.v, 0
  %over = extractvalue { i64, i1 } %difference.v, 1
  %factor = call i64 @word(ptr %record, i64 SOLVE.factor)
  %is.least = icmp eq i64 %difference, -9223372036854775808
  %unsafe = or i1 %over, %is.least
  br i1 %unsafe, label %no, label %exact
exact:
  %remainder = srem i64 %difference, %factor
  %value = sdiv i64 %difference, %factor
  %whole = icmp eq i64 %remainder, 0
  %usable = icmp ule i64 %value, 4611686018427387904
  %good = and i1 %whole, %usable
  br i1 %good, label %put, label %no
put:
  %size = call i64 @word(ptr %record, i64 SOLVE.size)
  %place = getelementptr i64, ptr %sizes, i64 %size
  %before = load i64, ptr %place
  %open = icmp slt i64 %before, 0
  %same = icmp eq i64 %before, %value
  %agrees = or i1 %open, %same                     ; an output may have said it
  br i1 %agrees, label %set, label %no
set:
  store i64 %value, ptr %place
  %i1 = add i64 %i, 1
  br label %check
yes:
  ret i1 true
no:
  ret i1 false
}

; %flat.slot gets a tuple made of `out`, which the caller lets go.
define internal ptr @enter(ptr %self, ptr %args, i64 %count, ptr %names, ptr %flat.slot) {
entry:
  %data = alloca [MAX_ARRAYS x ptr], align 16
  %lo = alloca [MAX_ARRAYS x i64], align 16
  %hi = alloca [MAX_ARRAYS x i64], align 16
  %strides = alloca [MAX_AXES x i64], align 16
  %sizes = alloca [MAX_SIZES x i64], align 16
  %slots = alloca [MAX_SCALARS x i64], align 16
  %made = alloca [MAX_ARRAYS x ptr], align 16      ; outputs created here
  %made.n = alloca i64
  %own.frame = alloca [MAX_PARAMS x ptr], align 16
  %out.slot = alloca ptr                           ; what was given as `out`, and is returned
  store i64 0, ptr %made.n
  store ptr null, ptr %out.slot
  %bytes = call ptr @item(ptr %self, i64 24)       ; item 0 of a tuple
  %table = getelementptr i8, ptr %bytes, i64 32    ; content of a bytes object
  %outputs = call i64 @word(ptr %table, i64 HEAD.outputs)
  %structure = call i64 @word(ptr %table, i64 HEAD.structure)
  %plain = icmp eq ptr %names, null
  br i1 %plain, label %bare, label %named
bare:
  %positional = call i64 @word(ptr %table, i64 HEAD.positional)
  %params = call i64 @word(ptr %table, i64 HEAD.params)
  %right.count = icmp eq i64 %count, %positional
  %no.more = icmp eq i64 %params, %positional
  %complete = and i1 %right.count, %no.more
  br i1 %complete, label %framed, label %slow
named:
  %gathered = call i1 @gather(ptr %table, ptr %args, i64 %count, ptr %names, ptr %own.frame, ptr %out.slot)
  br i1 %gathered, label %framed, label %slow
framed:
  %frame = phi ptr [ %args, %bare ], [ %own.frame, %named ]
  %out.object = load ptr, ptr %out.slot
  %no.object = icmp eq ptr %out.object, null
  %none = call ptr @item(ptr %table, i64 HEAD.none)
  %out.none = icmp eq ptr %out.object, %none
  %creating = or i1 %no.object, %out.none
  br i1 %creating, label %no.out, label %take.out
no.out:
  %allocate = call i64 @word(ptr %table, i64 HEAD.allocate)
  %able = icmp ne i64 %allocate, 0
  br i1 %able, label %prepare, label %slow
take.out:
  %some.outputs = icmp sgt i64 %outputs, 0
  br i1 %some.outputs, label %shape.out, label %slow
shape.out:
  %out.type = call ptr @item(ptr %out.object, i64 8)
  %tuple = call ptr @item(ptr %table, i64 HEAD.tuple)
  %is.tuple = icmp eq ptr %out.type, %tuple
  switch i64 %structure, label %flatten [ i64 0, label %prepare
                                          i64 1, label %maybe.tuple ]
maybe.tuple:
  br i1 %is.tuple, label %measure, label %flatten
flatten:
  %flattener = call ptr @item(ptr %table, i64 HEAD.flatten)
  %can.flatten = icmp ne ptr %flattener, null
  br i1 %can.flatten, label %ask.flat, label %slow
ask.flat:
  %flat = call ptr @PyObject_CallOneArg(ptr %flattener, ptr %out.object)
  store ptr %flat, ptr %flat.slot
  %not.flat = icmp eq ptr %flat, null
  br i1 %not.flat, label %forget, label %flat.type
forget:                                            ; the slow path says what is wrong
  call void @PyErr_Clear()
  br label %slow
flat.type:
  %flat.t = call ptr @item(ptr %flat, i64 8)
  %flat.tuple = icmp eq ptr %flat.t, %tuple
  br i1 %flat.tuple, label %measure, label %slow
measure:
  %bundle = phi ptr [ %out.object, %maybe.tuple ], [ %flat, %flat.type ]
  %out.n = call i64 @word(ptr %bundle, i64 16)
  %right.n = icmp eq i64 %out.n, %outputs
  %items = getelementptr i8, ptr %bundle, i64 24
  br i1 %right.n, label %prepare, label %slow
prepare:
  ; where the output objects are: the argument itself, or the items of a tuple, or (null) to be created
  %outs = phi ptr [ null, %no.out ], [ %out.slot, %shape.out ], [ %items, %measure ]
  %sizes.n = call i64 @word(ptr %table, i64 HEAD.sizes)
  %sizes.b = shl i64 %sizes.n, 3
  call void @llvm.memset.p0.i64(ptr %sizes, i8 -1, i64 %sizes.b, i1 false)
  %arrays.n = call i64 @word(ptr %table, i64 HEAD.arrays)
  %arrays = getelementptr i8, ptr %table, i64 HEAD.bytes
  %given.n = call i64 @word(ptr %table, i64 HEAD.given)
  %some.given = icmp ne i64 %given.n, 0
  br i1 %some.given, label %given, label %scalars.begin
given:
  %given.good = call i1 @take_sizes(ptr %table, ptr %frame, ptr %sizes)
  br i1 %given.good, label %scalars.begin, label %slow

scalars.begin:
  %scalars.n = call i64 @word(ptr %table, i64 HEAD.scalars)
  %scalar_at = call i64 @word(ptr %table, i64 HEAD.scalar_at)
  %scalars = getelementptr i8, ptr %table, i64 %scalar_at
  br label %s.check
s.check:
  %s = phi i64 [ 0, %scalars.begin ], [ %s1, %s.next ]
  %s.more = icmp slt i64 %s, %scalars.n
  br i1 %s.more, label %s.one, label %array.check
s.one:
  %s.o = mul i64 %s, SCALAR.bytes
  %s.record = getelementptr i8, ptr %scalars, i64 %s.o
  %s.param = call i64 @word(ptr %s.record, i64 SCALAR.param)
  %s.p = getelementptr ptr, ptr %frame, i64 %s.param
  %s.object = load ptr, ptr %s.p
  %s.slot = getelementptr i64, ptr %slots, i64 %s
  %s.good = call i1 @scalar(ptr %table, ptr %s.record, ptr %s.object, ptr %s.slot)
  br i1 %s.good, label %s.next, label %slow
s.next:
  %s1 = add i64 %s, 1
  br label %s.check

array.check:                                       ; arrays that are there; `worked` counts what is left to do
  %i = phi i64 [ 0, %s.check ], [ %i1, %array.next ]
  %todo = phi i64 [ 0, %s.check ], [ %todo1, %array.next ]
  %array.more = icmp slt i64 %i, %arrays.n
  br i1 %array.more, label %array, label %second.begin
array:
  %record.o = mul i64 %i, ARRAY.bytes
  %record = getelementptr i8, ptr %arrays, i64 %record.o
  %worked = call i64 @word(ptr %record, i64 ARRAY.worked)
  %object = call ptr @object(ptr %record, ptr %frame, ptr %outs)
  %absent = icmp eq ptr %object, null
  br i1 %absent, label %array.absent, label %array.there
array.there:
  %axis.0 = call i64 @word(ptr %record, i64 ARRAY.axis)
  %data.i = getelementptr ptr, ptr %data, i64 %i
  %lo.i = getelementptr i64, ptr %lo, i64 %i
  %hi.i = getelementptr i64, ptr %hi, i64 %i
  %strides.i = getelementptr i64, ptr %strides, i64 %axis.0
  %good = call i1 @admit(ptr %table, ptr %record, ptr %object,
                       ptr %sizes, ptr %data.i, ptr %strides.i, ptr %lo.i, ptr %hi.i)
  br i1 %good, label %array.next, label %slow
array.absent:
  br label %array.next
array.next:
  %more.todo = phi i64 [ %worked, %array.there ], [ 1, %array.absent ]
  %todo1 = add i64 %todo, %more.todo
  %i1 = add i64 %i, 1
  br label %array.check

second.begin:                                      ; sizes that follow, extents that are worked out, outputs to be made
  %any.todo = icmp ne i64 %todo, 0
  br i1 %any.todo, label %solving, label %overlap.begin
solving:
  %solved = call i1 @solve(ptr %table, ptr %frame, ptr %outs, ptr %sizes, ptr %slots)
  br i1 %solved, label %second, label %slow
second:
  %l = phi i64 [ 0, %solving ], [ %l1, %second.next ]
  %l.more = icmp slt i64 %l, %arrays.n
  br i1 %l.more, label %second.array, label %overlap.begin
second.array:
  %l.o = mul i64 %l, ARRAY.bytes
  %l.record = getelementptr i8, ptr %arrays, i64 %l.o
  %l.worked = call i64 @word(ptr %l.record, i64 ARRAY.worked)
  %l.object = call ptr @object(ptr %l.record, ptr %frame, ptr %outs)
  %l.absent = icmp eq ptr %l.object, null
  br i1 %l.absent, label %make, label %compare
compare:
  %l.plain = icmp eq i64 %l.worked, 0
  br i1 %l.plain, label %second.next, label %agree
agree:
  %agrees = call i1 @agrees(ptr %table, ptr %l.record, ptr %l.object, ptr %sizes, ptr %slots)
  br i1 %agrees, label %second.next, label %undo
make:
  %new = call ptr @create(ptr %table, ptr %l.record, ptr %sizes, ptr %slots)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %undo.error, label %made.one
made.one:
  %made.k = load i64, ptr %made.n
  %made.p = getelementptr ptr, ptr %made, i64 %made.k
  store ptr %new, ptr %made.p
  %made.k1 = add i64 %made.k, 1
  store i64 %made.k1, ptr %made.n
  %n.axis.0 = call i64 @word(ptr %l.record, i64 ARRAY.axis)
  %n.data = getelementptr ptr, ptr %data, i64 %l
  %n.lo = getelementptr i64, ptr %lo, i64 %l
  %n.hi = getelementptr i64, ptr %hi, i64 %l
  %n.strides = getelementptr i64, ptr %strides, i64 %n.axis.0
  %n.good = call i1 @admit(ptr %table, ptr %l.record, ptr %new,
                         ptr %sizes, ptr %n.data, ptr %n.strides, ptr %n.lo, ptr %n.hi)
  br i1 %n.good, label %second.next, label %undo
second.next:
  %l1 = add i64 %l, 1
  br label %second

overlap.begin:                                     ; what is written shares no byte with any other array
  br label %w.check
w.check:
  %w = phi i64 [ 0, %overlap.begin ], [ %w1, %w.next ]
  %w.more = icmp slt i64 %w, %arrays.n
  br i1 %w.more, label %w.array, label %run
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
  call void @Py_IncRef(ptr %none)
  ret ptr %none
pick:
  %single = icmp eq i64 %structure, 0
  br i1 %single, label %return.one, label %wrap
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
  br i1 %f.more, label %fill, label %filled
filled:
  %is.pair = icmp eq i64 %structure, 1
  br i1 %is.pair, label %return.tuple, label %assemble
return.tuple:
  ret ptr %wrapped
assemble:
  %assembler = call ptr @item(ptr %table, i64 HEAD.assemble)
  %assembled = call ptr @PyObject_CallOneArg(ptr %assembler, ptr %wrapped)
  call void @Py_DecRef(ptr %wrapped)
  ret ptr %assembled

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

define ptr @tw_entry(ptr %self, ptr %args, i64 %count, ptr %names) {
  %flat.slot = alloca ptr
  store ptr null, ptr %flat.slot
  %result = call ptr @enter(ptr %self, ptr %args, i64 %count, ptr %names, ptr %flat.slot)
  %flat = load ptr, ptr %flat.slot
  %none = icmp eq ptr %flat, null
  br i1 %none, label %done, label %drop
drop:
  call void @Py_DecRef(ptr %flat)
  br label %done
done:
  ret ptr %result
}
"""


def text() -> str:
    """IR of the entry function `tw_entry`."""
    return table.fill(entry_parts_ir.TEXT + entry_numbers_ir.TEXT + _TEXT)
