"""Several kernels as one, as LLVM IR: a function of the interface of kernels (abi.py) that runs them in turn.

Behind the context that it is called with stands the address of a table of words: how many checks, the address of them,
and the same of the four kinds of patches and of the steps (`TABLE`). A check is the address of a word in `sizes` or
`scalars` by kind and number, and what has to stand there (`CHECK`): where it does not, another table is needed, and the
code says so (`OTHER`). A patch puts a word of the call into one of those that the steps are called with (`PATCH`). The
steps follow: kernels with their words (`STEP`), and how many of them run at once from there on: these are the tasks of a
parallel loop, in which each runs on one thread. The first code that is not 0 ends the call.
"""

from __future__ import annotations

import re

OTHER = 100  # as a requirement that does not hold: the call goes the slow way, with its arguments as they came
KINDS = ("data", "sizes", "strides", "scalars")
TABLE = ("checks", "checks_at", "steps", "steps_at", *(f"{k}{end}" for k in KINDS for end in ("", "_at")))
CHECK = ("scalar", "number", "value")
PATCH = ("to", "number")
STEP = ("kernel", *KINDS, "group")
ENOUGH = 1 << 40  # work of a group: threads are woken for it

_PATCHES = """
define internal void @patch(i64 %n, ptr %patches, ptr %words) {
entry:
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %i1, %one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %done
one:
  %offset = mul i64 %i, PATCH.bytes
  %record = getelementptr i8, ptr %patches, i64 %offset
  %to.p = getelementptr i8, ptr %record, i64 PATCH.to
  %to = load ptr, ptr %to.p
  %number.p = getelementptr i8, ptr %record, i64 PATCH.number
  %number = load i64, ptr %number.p
  %word.p = getelementptr i64, ptr %words, i64 %number
  %word = load i64, ptr %word.p
  store i64 %word, ptr %to
  %i1 = add i64 %i, 1
  br label %check
done:
  ret void
}
"""

_ONE = """
define internal i32 @one(ptr %step.r, ptr %context) {
STEP.load kernel
STEP.load data
STEP.load sizes
STEP.load strides
STEP.load scalars
  %code = call i32 %step.kernel(ptr %step.data, ptr %step.sizes, ptr %step.strides, ptr %step.scalars, ptr %context)
  ret i32 %code
}

; A step of a group as the task of a loop: behind `env` stand the first of them and the context.
define internal i32 @task(ptr %env, i64 %number) {
  %first = load ptr, ptr %env
  %context.p = getelementptr i8, ptr %env, i64 8
  %context = load ptr, ptr %context.p
  %offset = mul i64 %number, STEP.bytes
  %step = getelementptr i8, ptr %first, i64 %offset
  %code = call i32 @one(ptr %step, ptr %context)
  ret i32 %code
}
"""

_RUN = """
define i32 @tw_steps(ptr %data, ptr %sizes, ptr %strides, ptr %scalars, ptr %context) {
entry:
  %env = alloca [2 x ptr]
  %table.p = getelementptr i8, ptr %context, i64 CONTEXT.bytes
  %table = load ptr, ptr %table.p
TABLE.load checks
TABLE.load steps
TABLE.load data
TABLE.load sizes
TABLE.load strides
TABLE.load scalars
  br label %check
check:
  %c = phi i64 [ 0, %entry ], [ %c1, %compare ]
  %c.more = icmp slt i64 %c, %n.checks
  br i1 %c.more, label %compare, label %patch
compare:
  %c.offset = mul i64 %c, CHECK.bytes
  %c.record = getelementptr i8, ptr %at.checks, i64 %c.offset
  %scalar.p = getelementptr i8, ptr %c.record, i64 CHECK.scalar
  %scalar = load i64, ptr %scalar.p
  %is.scalar = icmp ne i64 %scalar, 0
  %from = select i1 %is.scalar, ptr %scalars, ptr %sizes
  %number.p = getelementptr i8, ptr %c.record, i64 CHECK.number
  %number = load i64, ptr %number.p
  %now.p = getelementptr i64, ptr %from, i64 %number
  %now = load i64, ptr %now.p
  %value.p = getelementptr i8, ptr %c.record, i64 CHECK.value
  %value = load i64, ptr %value.p
  %c1 = add i64 %c, 1
  %same = icmp eq i64 %now, %value
  br i1 %same, label %check, label %other
other:
  ret i32 OTHER
patch:
  call void @patch(i64 %n.data, ptr %at.data, ptr %data)
  call void @patch(i64 %n.sizes, ptr %at.sizes, ptr %sizes)
  call void @patch(i64 %n.strides, ptr %at.strides, ptr %strides)
  call void @patch(i64 %n.scalars, ptr %at.scalars, ptr %scalars)
  br label %run
run:
  %s = phi i64 [ 0, %patch ], [ %s1, %ran ]
  %s.more = icmp slt i64 %s, %n.steps
  br i1 %s.more, label %step, label %done
step:
  %s.offset = mul i64 %s, STEP.bytes
  %step.r = getelementptr i8, ptr %at.steps, i64 %s.offset
  %group.p = getelementptr i8, ptr %step.r, i64 STEP.group
  %group = load i64, ptr %group.p
  %several = icmp sgt i64 %group, 1
  br i1 %several, label %together, label %alone
alone:
  %code.a = call i32 @one(ptr %step.r, ptr %context)
  br label %ran
together:
  store ptr %step.r, ptr %env
  %env1 = getelementptr i8, ptr %env, i64 8
  store ptr %context, ptr %env1
  %loop.p = getelementptr i8, ptr %context, i64 CONTEXT.loop
  %loop = load ptr, ptr %loop.p
  %code.t = call i32 %loop(ptr %context, ptr @task, ptr %env, i64 %group, i64 ENOUGH)
  br label %ran
ran:
  %code = phi i32 [ %code.a, %alone ], [ %code.t, %together ]
  %s1 = add i64 %s, %group
  %good = icmp eq i32 %code, 0
  br i1 %good, label %run, label %failed
failed:
  ret i32 %code
done:
  ret i32 0
}
"""


def text() -> str:
    """IR of the function `tw_steps`."""
    from tilewright.codegen.abi import CONTEXT_BYTES, Context

    out = (_PATCHES + _ONE + _RUN).replace("CONTEXT.bytes", str(CONTEXT_BYTES)).replace("OTHER", str(OTHER))
    out = out.replace("CONTEXT.loop", str(Context.parallel_for.offset)).replace("ENOUGH", str(ENOUGH))
    for name, fields in (("CHECK", CHECK), ("PATCH", PATCH), ("STEP", STEP)):
        out = out.replace(f"{name}.bytes", str(8 * len(fields)))
        for number, field in enumerate(fields):
            out = re.sub(rf"\b{name}\.{field}\b", str(8 * number), out)
    out = re.sub(r"TABLE\.load (\w+)", lambda m: _count(m[1]) + _load("table", f"{m[1]}_at", TABLE, f"at.{m[1]}"), out)
    return re.sub(r"STEP\.load (\w+)", lambda m: _load("step.r", m[1], STEP, f"step.{m[1]}"), out)


def _count(field: str) -> str:
    return _load("table", field, TABLE, f"n.{field}", "i64") + "\n"


def _load(base: str, field: str, fields: tuple[str, ...], name: str, type_: str = "ptr") -> str:
    at = 8 * fields.index(field)
    return f"  %{name}.p = getelementptr i8, ptr %{base}, i64 {at}\n  %{name} = load {type_}, ptr %{name}.p"
