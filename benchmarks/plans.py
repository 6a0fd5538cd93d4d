"""`python -m benchmarks.plans [--threads 1,2] [--rounds N] [--markdown FILE]`: what plans save, and how long they take.

Figures of the plans (by the planner's model: nothing runs) beside those of a naive plan, which stores every Func, and of
layouts that each step chooses for itself; then the cases `plan-*` of `python -m benchmarks`, beside their peers. With
`--markdown`, the section between the two marks in FILE is written anew.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Against, Result, from_json, shown

if TYPE_CHECKING:
    from tilewright.planner.plan import Plan

BEGIN = "<!-- written by `python -m benchmarks.plans --markdown docs/planner.md`: change the program, not the text -->"
END = "<!-- end of what is written -->"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plans", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", default="1,2", metavar="N,...", help="measure with so many threads (default: 1,2)")
    parser.add_argument("--rounds", type=int, metavar="N", help="timed rounds of a case (default: for some seconds)")
    parser.add_argument("--markdown", metavar="FILE", help="write the section of this page anew")
    args = parser.parse_args()
    if args.markdown and not has_marks(Path(args.markdown)):
        parser.error(f"--markdown: {args.markdown} has no section to write: lines {BEGIN!r} and {END!r}")
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", args.threads):
        parser.error("--threads must be numbers of threads: 1,2")
    lines = [*saved(), ""]
    measured = {n: results(n, args.rounds) for n in map(int, args.threads.split(","))}
    lines += beside(measured)
    if args.markdown:
        replace_section(Path(args.markdown), [*about(), "", *lines])
    else:
        print("\n".join(lines))
    return 0


# The figures of plans -----------------------------------------------------------------------------------------------


def graphs() -> dict[str, Callable[[], Plan]]:
    """The plans whose figures are shown."""
    import tilewright as tw
    from benchmarks.cases.data import example
    from benchmarks.cases.plans import attention_kernel, basic, bottleneck
    from tilewright import ops

    m = tw.sizes("M")

    @tw.kernel
    def chain(x: tw.f32[m, 512], w: [tw.f32[512, 512]] * 4):  # type: ignore[valid-type]
        for one in w:
            x = ops.linear(x, one)
        return x

    @tw.kernel
    def perceptron(x: tw.f32[m, 1024], up: tw.f32[1024, 2048], down: tw.f32[2048, 1024]):
        return ops.linear(ops.gelu(ops.linear(ops.layer_norm(x), up)), down)

    language = example("graphs/transformer")
    model = language.transformer(language.SHAPE)
    square = {"H": 8, "M": 1024, "N": 1024}

    def block(kernel: tw.Kernel, batch: int) -> Plan:
        weights = [a.name for a in kernel.pipeline().arrays[1:]]
        return tw.plan(kernel, sizes={"B": batch, "Y": 56, "X": 56}, weights=weights)

    def tokens(count: int, past: int) -> Plan:
        sizes = {"T": count, "N": past + count}
        phase = "prefill" if count > 1 else "decode"
        return tw.plan(model, phase=phase, sizes=sizes, scalars={"past": past}, weights=["w"], tokens="T")  # type: ignore[arg-type]

    return {
        "attention, 8 heads x 1024 x 64": lambda: tw.plan(attention_kernel, sizes=square),
        "the same, causal": lambda: tw.plan(attention_kernel, sizes=square, statics={"causal": True}),
        "four products, 256 x 512": lambda: tw.plan(chain, sizes={"M": 256}, weights=["w"]),
        "1,024 to 2,048 to 1,024, 256 rows": lambda: tw.plan(perceptron, sizes={"M": 256}, weights=["up", "down"]),
        "transformer, 128 tokens": lambda: tokens(128, 0),
        "transformer, a token after 128": lambda: tokens(1, 128),
        "residual block, 1 picture": lambda: block(basic, 1),
        "bottleneck, 8 pictures": lambda: block(bottleneck, 8),
        "local Laplacian, 1200 x 1024": lambda: tw.plan(
            example("local_laplacian").local_laplacian, sizes={"H": 1200, "W": 1024}
        ),
    }


def saved() -> Iterator[str]:
    """A table: what is fused, moved, kept and converted, beside the naive plan and greedy layouts."""
    yield (
        "| graph | Funcs | stored | steps (kernels) | moved | naive | moved a token | naive | between steps | naive | "
        "conversions | greedy |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for name, make in graphs().items():
        plan = make()
        m, layouts = plan.metrics, plan.layouts
        each = 1 if m.tokens is None else max(1, m.sizes[m.tokens])
        by_token = ("", "") if m.tokens is None else tuple(size(x.bytes / each) for x in (m.plan, m.naive))
        yield "| " + " | ".join((
            name, str(m.plan.funcs), f"{m.plan.stored} ({m.plan.fusion_rate:.0%} fused)",
            f"{m.plan.steps} ({m.plan.kernels})", size(m.plan.bytes), size(m.naive.bytes), *by_token,
            size(m.plan.memory.buffers), size(m.naive.memory.buffers),
            str(len(layouts.chosen.conversions)), str(len(layouts.greedy.conversions)),
        )) + " |"  # fmt: skip


def size(n: float) -> str:
    """`1.52 MB`"""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= scale:
            return f"{n / scale:.3g} {unit}"
    return f"{n:.0f} B"


# Times --------------------------------------------------------------------------------------------------------------


def results(threads: int, rounds: int | None) -> list[Result]:
    """The cases, in a process of their own: threads are pinned before NumPy is imported."""
    command = [sys.executable, "-m", "benchmarks", "plan", "--threads", str(threads), "--json"]
    run = subprocess.run(
        command + ([] if rounds is None else ["--rounds", str(rounds)]), stdout=subprocess.PIPE, text=True, check=False
    )
    found = [json.loads(line) for line in run.stdout.splitlines()]
    wrong = [x for x in found if "skipped" in x]
    if wrong or not found:
        raise SystemExit(f"not measured: {wrong or command}")
    return [from_json(x) for x in found]


def beside(measured: dict[int, list[Result]]) -> Iterator[str]:
    """A table: a row for each peer of each case."""
    from benchmarks.cases.plans import ENTRIES

    titles = {e.name: e.title for e in ENTRIES}
    yield "| case | threads | ours | peer | peer's time | ratio | asked |"
    yield "|---|---|---|---|---|---|---|"
    for threads, found in measured.items():
        for r in found:
            head = f"**{r.case}**: {titles[r.case]} | {threads} | {shown(r.seconds.median)}"
            for p in r.peers:
                yield f"| {head} | {row(p)} |"
                head = " | | "


def row(p: Against) -> str:
    if p.seconds is None or p.ratio is None:
        return f"{p.name} | {p.missing} | |"
    asked = "" if p.target is None else f"{p.target:g}{'' if p.reached else ' (not reached)'}"
    return (
        f"{p.name} | {shown(p.seconds.median)} | {p.ratio.median:.2f} [{p.ratio.low:.2f}-{p.ratio.high:.2f}] | {asked}"
    )


# The page -----------------------------------------------------------------------------------------------------------


def about() -> Iterator[str]:
    from tilewright.codegen.data_caches import processor_name

    yield f"Measured on {datetime.date.today().isoformat()} on {processor_name()}."


def has_marks(file: Path) -> bool:
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return BEGIN in lines and END in lines


def replace_section(file: Path, lines: Sequence[str]) -> None:
    before, rest = file.read_text(encoding="utf-8").split(BEGIN, 1)
    _, after = rest.split(END, 1)
    file.write_text("".join((before, BEGIN, "\n\n", "\n".join(lines), "\n\n", END, after)), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
