"""Parallel loops: the body becomes a function of its own, called per iteration or handed to the caller's executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.codegen.emit.region import Region
from tilewright.codegen.emit.values import scalar
from tilewright.codegen.loops import For, Stmt
from tilewright.codegen.work import ENOUGH
from tilewright.lang.errors import CompileError

_RUNNER = "ptr %context, ptr %task, ptr %env, i64 %trips, i64 %work, i64 %inner"
EVEN = 4  # iterations a thread of a loop that is shared out as it is: the last ones leave few threads without work


def signature(child: Region) -> tuple[list[Any], str]:
    """What a finished region takes from around it, and its parameter list."""
    keys = list(child.captures)
    return keys, ", ".join(f"{child.parameter(k)} {child.captures[k]}" for k in keys)


def finish(child: Region, name: str, parameters: str) -> None:
    """Close a region's function and put it into the module."""
    f = child.f
    f.do("ret i32 0")
    tail = child.tail
    if tail:
        last = [f"  %code = load i32, ptr {child.code}", "  ret i32 %code"] if child.code else ["  unreachable"]
        tail = [*tail, "unwound:", *last]
    lines = [f"define internal i32 @{name}({parameters}) nounwind {{", "entry:", *f.head, *f.lines, *tail, "}"]
    f.module.functions.append("\n".join(lines))


def arguments(r: Region, keys: list[Any]) -> list[str]:
    """The operands, in this region, of what a child captured, with their types."""
    return [f"{r.captured_type(k)} {r.supply(k)}" for k in keys]


def release(r: Region, p: str) -> list[str]:
    """The instructions that give a block back to the caller's allocator."""
    f, context = r.f, r.captured("context")
    place, fn = f.name(), f.name()
    return [
        f"  {place} = getelementptr i8, ptr {context}, i64 24",
        f"  {fn} = load ptr, ptr {place}",
        f"  call void {fn}(ptr {context}, ptr {p})",
    ]


def hold(r: Region, p: str) -> None:
    """From here on an early return gives the block back: by a chain of blocks, one for each that is held."""
    label = r.f.label("unwind")
    then = f"br label %{r.held[-1]}" if r.held else "br label %unwound"
    r.tail += [f"{label}:", *release(r, p), f"  {then}"]
    r.held.append(label)


def leave(r: Region, code: str) -> None:
    """Return early with a code; what is held goes back first."""
    if not r.held:
        r.f.do(f"ret i32 {code}")
        return
    if r.code is None:
        r.code = r.f.alloca("i32", 4)
    r.f.do(f"store i32 {code}, ptr {r.code}")
    r.f.br(r.held[-1])


def emit_parallel(r: Region, s: For, emit_statement: Callable[[Region, Stmt], None]) -> None:
    """`for var in start..stop` by the executor of the context; serially where there is one thread or one iteration,
    where too little work is known to be in it, or where it has few iterations and loops inside share out those.

    What is the same for every loop stands in a function of its own: a program of hundreds of loops stays small.
    """
    if r.lanes is not None:
        raise CompileError(
            f"the parallel loop {s.var.attr!r} stands inside the vectorized loop {r.lanes.var.attr!r}",
            code="vectorize.parallel",
        )
    f = r.f
    start, stop = scalar(r, s.start), scalar(r, s.stop)
    name, keys = _outline(r, s, emit_statement)
    given = arguments(r, keys)
    context = r.captured("context")
    enter, failed, end = (f.label(x) for x in ("enter", "failed", "end"))
    trips = f.op(f"sub nsw i64 {stop}, {start}")
    f.branch(f.op(f"icmp sgt i64 {trips}, 0"), enter, end)
    f.begin(enter)
    whole, inner = str(ENOUGH), "0"
    if s.work is not None:
        with r.scope():  # what is computed here is known in this block only
            whole = f.op(f"mul i64 {trips}, {scalar(r, s.work)}")
            inner = "0" if s.shared is None else scalar(r, s.shared)
    task, env = _environment(r, name, keys, [f"i64 {start}", *given])
    run = _runner(r)
    code = f.op(f"call i32 {run}(ptr {context}, ptr {task}, ptr {env}, i64 {trips}, i64 {whole}, i64 {inner})")
    f.branch(f.op(f"icmp eq i32 {code}, 0"), end, failed)
    f.begin(failed)
    leave(r, code)
    f.begin(end)
    r.touch(r.shared.writes(s.body))


def _outline(r: Region, s: For, emit_statement: Callable[[Region, Stmt], None]) -> tuple[str, list[Any]]:
    """The loop's body as a function of the iteration and of what it uses from outside."""
    r.shared.regions += 1
    name = f"{r.shared.program.symbol}.body{r.shared.regions}"
    child = Region(r.shared, r)
    child.depth[s.var] = 1
    child.put(child.key(s.var), "%i")
    emit_statement(child, s.body)
    keys, parameters = signature(child)
    finish(child, name, ", ".join(p for p in ("i64 %i", parameters) if p))
    return name, keys


def _environment(r: Region, name: str, keys: list[Any], given: list[str]) -> tuple[str, str]:
    """What is called once an iteration, and the filled environment that it unpacks."""
    f = r.f
    struct = "{ " + ", ".join(["i64", *(r.captured_type(k) for k in keys)]) + " }"
    env = f.alloca(struct, 8)
    for i, x in enumerate(given):
        p = f.op(f"getelementptr {struct}, ptr {env}, i64 0, i32 {i}")
        f.do(f"store {x}, ptr {p}")
    _task(r, name, keys, struct)
    return f"@{name}.task", env


def _runner(r: Region) -> str:
    """The function that calls a task `%trips` times, serially or by the executor of the context; the first code that
    is not 0 ends a serial loop. `%work` is that of the whole loop, `%inner` what each iteration has in parallel loops: if
    that is most of it, and there are few iterations, those loops are shared out."""
    name = f"@{r.shared.program.symbol}.run"
    r.f.module.declared.setdefault(
        name,
        f"""define internal i32 {name}({_RUNNER}) noinline nounwind {{
entry:
  %workers = load i64, ptr %context
  %one = icmp slt i64 %workers, 2
  %single = icmp eq i64 %trips, 1
  %little = icmp slt i64 %work, {ENOUGH}
  %even = mul i64 %workers, {EVEN}
  %uneven = icmp slt i64 %trips, %even
  %better = icmp sge i64 %inner, {ENOUGH}
  %all = mul i64 %inner, %trips
  %twice = shl i64 %all, 1
  %most = icmp sge i64 %twice, %work
  %worth = and i1 %better, %most
  %within = and i1 %uneven, %worth
  %few = or i1 %one, %single
  %small = or i1 %few, %little
  %alone = or i1 %small, %within
  br i1 %alone, label %serial, label %threads
serial:
  %i = phi i64 [ 0, %entry ], [ %following, %serial ]
  %code = call i32 %task(ptr %env, i64 %i)
  %following = add nsw i64 %i, 1
  %more = icmp slt i64 %following, %trips
  %good = icmp eq i32 %code, 0
  %again = and i1 %more, %good
  br i1 %again, label %serial, label %end
threads:
  %place = getelementptr i8, ptr %context, i64 8
  %executor = load ptr, ptr %place
  %result = call i32 %executor(ptr %context, ptr %task, ptr %env, i64 %trips, i64 %work)
  br label %end
end:
  %final = phi i32 [ %code, %serial ], [ %result, %threads ]
  ret i32 %final
}}""",
    )
    return name


def _task(r: Region, name: str, keys: list[Any], struct: str) -> None:
    """What the executor calls: unpacks the environment and runs one iteration."""
    lines = [f"define internal i32 @{name}.task(ptr %env, i64 %task) nounwind {{"]
    given = []
    for i, ty in enumerate(["i64", *(r.captured_type(k) for k in keys)]):
        lines.append(f"  %p{i} = getelementptr {struct}, ptr %env, i64 0, i32 {i}")
        lines.append(f"  %x{i} = load {ty}, ptr %p{i}")
        given.append(f"{ty} %x{i}")
    lines.append("  %i = add nsw i64 %x0, %task")
    lines.append(f"  %code = call i32 @{name}({', '.join(['i64 %i', *given[1:]])})")
    lines += ["  ret i32 %code", "}"]
    r.f.module.functions.append("\n".join(lines))
