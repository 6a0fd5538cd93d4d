"""The numbers of a call from Python, as LLVM IR: Python's, NumPy's scalars, arrays without axes."""

from __future__ import annotations

TEXT = """
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)

; The value of 16 bits in the format f16, exactly.
define internal double @half(i16 %bits) {
  %wide = zext i16 %bits to i64
  %magnitude = and i64 %wide, 32767
  %e = lshr i64 %magnitude, 10
  %fraction = and i64 %magnitude, 1023
  %special = icmp eq i64 %e, 31
  %tiny = icmp eq i64 %e, 0
  %e.double = add i64 %e, 1008                     ; 1023 - 15
  %e.bits = select i1 %special, i64 2047, i64 %e.double
  %e.at = shl i64 %e.bits, 52
  %f.at = shl i64 %fraction, 42
  %normal.bits = or i64 %e.at, %f.at
  %normal = bitcast i64 %normal.bits to double
  %whole = uitofp i64 %fraction to double
  %small = fmul double %whole, 0x3E70000000000000  ; 2**-24
  %size = select i1 %tiny, double %small, double %normal
  %size.bits = bitcast double %size to i64
  %sign = and i64 %wide, 32768
  %sign.at = shl i64 %sign, 48
  %all = or i64 %size.bits, %sign.at
  %value = bitcast i64 %all to double
  ret double %value
}

; What kind of number an object is, and its value as i64 or double: 0 none that is known here; 1 an integer; 2 a float of
; Python's; 3 a bool; 4 a float of NumPy's, which must not be rounded.
define internal i64 @number(ptr %table, ptr %object, ptr %value) {
entry:
  %overflow = alloca i32
  %type = call ptr @item(ptr %object, i64 8)
  %at = getelementptr i8, ptr %object, i64 16      ; where the value is
  %float = call ptr @item(ptr %table, i64 HEAD.float)
  %is.float = icmp eq ptr %type, %float
  br i1 %is.float, label %python.float, label %try.int
python.float:
  %p.float = load i64, ptr %at
  store i64 %p.float, ptr %value
  ret i64 2
try.int:
  %int = call ptr @item(ptr %table, i64 HEAD.int)
  %is.int = icmp eq ptr %type, %int
  br i1 %is.int, label %python.int, label %try.bool
python.int:
  store i32 0, ptr %overflow
  %n = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  store i64 %n, ptr %value
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  %int.kind = zext i1 %fits to i64
  ret i64 %int.kind
try.bool:
  %true = call ptr @item(ptr %table, i64 HEAD.true)
  %false = call ptr @item(ptr %table, i64 HEAD.false)
  %is.true = icmp eq ptr %object, %true
  %is.false = icmp eq ptr %object, %false
  %is.bool = or i1 %is.true, %is.false
  br i1 %is.bool, label %python.bool, label %try.array
python.bool:
  %p.bool = zext i1 %is.true to i64
  store i64 %p.bool, ptr %value
  ret i64 3
try.array:
  %ndarray = call ptr @item(ptr %table, i64 HEAD.ndarray)
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %rank, label %search
rank:
  %rank.p = getelementptr i8, ptr %object, i64 24
  %rank.v = load i32, ptr %rank.p
  %no.axes = icmp eq i32 %rank.v, 0
  br i1 %no.axes, label %array, label %no
array:
  %descr = call ptr @item(ptr %object, i64 56)
  %data = call ptr @item(ptr %object, i64 16)
  br label %search
search:
  %wanted = phi ptr [ %type, %try.array ], [ %descr, %array ]
  %column = phi i64 [ NUMBER.type, %try.array ], [ NUMBER.descr, %array ]
  %place = phi ptr [ %at, %try.array ], [ %data, %array ]
  %number_at = call i64 @word(ptr %table, i64 HEAD.number_at)
  %numbers = getelementptr i8, ptr %table, i64 %number_at
  %count = call i64 @word(ptr %table, i64 HEAD.numbers)
  br label %check
check:
  %i = phi i64 [ 0, %search ], [ %i1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %no
one:
  %offset = mul i64 %i, NUMBER.bytes
  %record = getelementptr i8, ptr %numbers, i64 %offset
  %candidate = call ptr @item(ptr %record, i64 %column)
  %same = icmp eq ptr %candidate, %wanted
  br i1 %same, label %found, label %next
next:
  %i1 = add i64 %i, 1
  br label %check
found:
  %stored = call i64 @word(ptr %record, i64 NUMBER.stored)
  switch i64 %stored, label %no [ i64 STORED.float64, label %f64
                                  i64 STORED.float32, label %f32
                                  i64 STORED.float16, label %f16
                                  i64 STORED.bfloat16, label %bf16
                                  i64 STORED.bool, label %bool
                                  i64 STORED.int8, label %i8
                                  i64 STORED.int16, label %i16
                                  i64 STORED.int32, label %i32
                                  i64 STORED.int64, label %i64
                                  i64 STORED.uint8, label %u8
                                  i64 STORED.uint16, label %u16
                                  i64 STORED.uint32, label %u32
                                  i64 STORED.uint64, label %u64 ]
f64:
  %f64.v = load double, ptr %place, align 1
  br label %real
f32:
  %f32.v = load float, ptr %place, align 1
  %f32.d = fpext float %f32.v to double
  br label %real
f16:
  %f16.b = load i16, ptr %place, align 1
  %f16.d = call double @half(i16 %f16.b)
  br label %real
bf16:
  %bf16.b = load i16, ptr %place, align 1
  %bf16.w = zext i16 %bf16.b to i32
  %bf16.s = shl i32 %bf16.w, 16
  %bf16.f = bitcast i32 %bf16.s to float
  %bf16.d = fpext float %bf16.f to double
  br label %real
real:
  %x = phi double [ %f64.v, %f64 ], [ %f32.d, %f32 ], [ %f16.d, %f16 ], [ %bf16.d, %bf16 ]
  store double %x, ptr %value
  ret i64 4
bool:
  %bool.b = load i8, ptr %place
  %bool.t = icmp ne i8 %bool.b, 0
  %bool.w = zext i1 %bool.t to i64
  store i64 %bool.w, ptr %value
  ret i64 3
i8:
  %i8.b = load i8, ptr %place
  %i8.w = sext i8 %i8.b to i64
  br label %whole
i16:
  %i16.b = load i16, ptr %place, align 1
  %i16.w = sext i16 %i16.b to i64
  br label %whole
i32:
  %i32.b = load i32, ptr %place, align 1
  %i32.w = sext i32 %i32.b to i64
  br label %whole
u8:
  %u8.b = load i8, ptr %place
  %u8.w = zext i8 %u8.b to i64
  br label %whole
u16:
  %u16.b = load i16, ptr %place, align 1
  %u16.w = zext i16 %u16.b to i64
  br label %whole
u32:
  %u32.b = load i32, ptr %place, align 1
  %u32.w = zext i32 %u32.b to i64
  br label %whole
i64:
  %i64.w = load i64, ptr %place, align 1
  br label %whole
u64:
  %u64.w = load i64, ptr %place, align 1
  %too.large = icmp slt i64 %u64.w, 0
  br i1 %too.large, label %no, label %whole
whole:
  %w = phi i64 [ %i8.w, %i8 ], [ %i16.w, %i16 ], [ %i32.w, %i32 ], [ %i64.w, %i64 ], [ %u8.w, %u8 ], [ %u16.w, %u16 ],
               [ %u32.w, %u32 ], [ %u64.w, %u64 ]
  store i64 %w, ptr %value
  ret i64 1
no:
  ret i64 0
}

; Puts a number into a scalar slot. False: not for the fast path.
define internal i1 @scalar(ptr %table, ptr %record, ptr %object, ptr %slot) {
entry:
  %value = alloca i64
  %found = call i64 @number(ptr %table, ptr %object, ptr %value)
  %kind = call i64 @word(ptr %record, i64 SCALAR.kind)
  %lo = call i64 @word(ptr %record, i64 SCALAR.lo)
  %hi = call i64 @word(ptr %record, i64 SCALAR.hi)
  %n = load i64, ptr %value
  %is.int = icmp eq i64 %found, 1
  %is.weak = icmp eq i64 %found, 2
  %is.bool = icmp eq i64 %found, 3
  %is.typed = icmp eq i64 %found, 4
  switch i64 %kind, label %real [ i64 2, label %bool
                                  i64 3, label %integer ]
bool:
  store i64 %n, ptr %slot
  ret i1 %is.bool
integer:
  store i64 %n, ptr %slot
  %above = icmp sge i64 %n, %lo
  %below = icmp sle i64 %n, %hi
  %inside = and i1 %above, %below
  %good = and i1 %inside, %is.int
  ret i1 %good
real:
  br i1 %is.int, label %whole, label %floating
whole:                                             ; lo..hi are such that this is exact
  %w.above = icmp sge i64 %n, %lo
  %w.below = icmp sle i64 %n, %hi
  %w.inside = and i1 %w.above, %w.below
  %wide = sitofp i64 %n to double
  br i1 %w.inside, label %have, label %no
floating:
  %given = load double, ptr %value
  %is.float = or i1 %is.weak, %is.typed
  br i1 %is.float, label %have, label %no
have:
  %x = phi double [ %wide, %whole ], [ %given, %floating ]
  %is.f64 = icmp eq i64 %kind, 0
  br i1 %is.f64, label %store.double, label %narrow
store.double:
  store double %x, ptr %slot
  ret i1 true
narrow:
  %is.short = icmp sge i64 %kind, 4
  br i1 %is.short, label %short, label %round
round:
  %y.f32 = fptrunc double %x to float
  br label %compare
short:
  %most.p = getelementptr i8, ptr %record, i64 SCALAR.most
  %most = load double, ptr %most.p
  %size = call double @llvm.fabs.f64(double %x)
  %in.range = fcmp ole double %size, %most
  br i1 %in.range, label %convert, label %no
convert:                                           ; NumPy rounds
  %converter = call ptr @item(ptr %record, i64 SCALAR.convert)
  %number = call ptr @PyFloat_FromDouble(double %x)
  %lost.number = icmp eq ptr %number, null
  br i1 %lost.number, label %failed, label %ask
ask:
  %rounded = call ptr @PyObject_CallOneArg(ptr %converter, ptr %number)
  call void @Py_DecRef(ptr %number)
  %lost.rounded = icmp eq ptr %rounded, null
  br i1 %lost.rounded, label %failed, label %take
failed:
  call void @PyErr_Clear()
  ret i1 false
take:
  %short.kind = call i64 @number(ptr %table, ptr %rounded, ptr %value)
  call void @Py_DecRef(ptr %rounded)
  %short.good = icmp eq i64 %short.kind, 4
  %short.x = load double, ptr %value
  %y.short = fptrunc double %short.x to float
  br i1 %short.good, label %compare, label %no
compare:
  %y = phi float [ %y.f32, %round ], [ %y.short, %take ]
  %back = fpext float %y to double
  %differs = fcmp one double %back, %x             ; not for NaN
  %rounds = and i1 %differs, %is.typed
  %size.y = call float @llvm.fabs.f32(float %y)
  %size.x = call double @llvm.fabs.f64(double %x)
  %inf.y = fcmp oeq float %size.y, 0x7FF0000000000000
  %fin.x = fcmp one double %size.x, 0x7FF0000000000000
  %lost = and i1 %inf.y, %fin.x                    ; too large: the slow path says so
  %refused = or i1 %rounds, %lost
  br i1 %refused, label %no, label %store.float
store.float:
  store i64 0, ptr %slot
  store float %y, ptr %slot
  ret i1 true
no:
  ret i1 false
}
"""
