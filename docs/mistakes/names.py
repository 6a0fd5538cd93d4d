"""Names and wording."""

from __future__ import annotations

from typing import Any, cast

import tilewright as tw
from tilewright.schedule.directive import Directive
from tilewright.schedule.text import format_directive

from . import refused
from .kernels import add, blur, matmul


@refused("unknown-stage")
def unknown_stage():
    """No stage has that address."""
    s = matmul.schedule()
    s["D"]


@refused("unknown-loop")
def unknown_loop():
    """The stage has no loop of that name, or not any more: a split takes its loop away."""
    s = matmul.schedule()
    s["C.update"].split("k", "ko", "ki", 8).unroll("k")


@refused("unknown-func")
def unknown_func():
    """No Func has that name."""
    s = matmul.schedule()
    s.cache_write("D", at="C.update.i")


@refused("unknown-knob")
def unknown_knob():
    """The schedule has no knob of that name."""
    s = matmul.schedule()
    s.knob("tile", 8)
    s.with_knobs(tiles=16)


@refused("unknown-directive")
def unknown_directive():
    """There is no such directive."""
    tw.parse_schedule("schedule matmul\n  C.init:\n    vectorise j by 8\n", matmul)


@refused("ambiguous-stage")
def ambiguous_stage():
    """The Func has several stages, and the directive is for one of them."""
    s = matmul.schedule()
    s["C"].vectorize("j", 8)


@refused("ambiguous-loop")
def ambiguous_loop():
    """Several stages have a loop of that name."""
    s = blur.schedule()
    s["across"].compute_at("down.y")
    s.prefetch("A", at="x")


@refused("foreign-loop")
def foreign_loop():
    """The loop belongs to another stage or Func than the directive."""
    s = matmul.schedule()
    s["C.update"].vectorize("C.init.j", 8)


@refused("func-directive")
def func_directive():
    """Placement and storage are those of a Func, and a stage is named."""
    s = matmul.schedule()
    s["C.update"].store_in("main")


@refused("name")
def no_name():
    """Something else stands where a name is wanted, or the text is no identifier."""
    s = matmul.schedule()
    s["C.update"].split("k", "k outer", "k inner", 8)


@refused("name-twice")
def name_twice():
    """The name is taken: by a loop that the stage has or had, by a Func, a tile or a knob."""
    s = matmul.schedule()
    s["C.update"].split("k", "ko", "i", 8)


@refused("axis")
def no_axis():
    """The Func has no axis of that name."""
    s = matmul.schedule()
    s["C"].bound("k", 0, 512)


@refused("memory")
def no_memory():
    """No machine, or not the one that is bound, has a memory of that name."""
    s = blur.schedule(machine="snitch-cluster")
    s["across"].compute_root().store_in("l7")


@refused("not-read")
def not_read():
    """What is to be staged, cloned or prefetched is not read there."""
    s = matmul.schedule()
    s.cache_read("A", at="C.init.i")


@refused("misplaced")
def misplaced():
    """A directive about a whole Func stands under the heading of a stage."""
    tw.parse_schedule("schedule blur\n  down:\n    compute_root across\n", blur)


@refused("arity")
def arity():
    """Too many or too few names or factors."""
    s = matmul.schedule()
    s["C.update"].tile(("i", "j"), ("io", "jo"), ("ii", "ji"), (8,))


@refused("option")
def option():
    """An option that is missing, is said twice, or does not belong to that directive."""
    tw.parse_schedule("schedule matmul\n  C.update:\n    split k -> ko, ki\n", matmul)


@refused("factor")
def factor():
    """A factor is a positive integer that is known now."""
    s = matmul.schedule()
    s["C.update"].split("k", "ko", "ki", 0)


@refused("knob")
def knob():
    """The value of a knob is none of its choices."""
    s = matmul.schedule()
    s.knob("tile", 12, choices=(8, 16))


@refused("constraint")
def constraint():
    """The values of knobs break a condition between them, or the text is no such condition."""
    s = matmul.schedule()
    s.knob("a", 8)
    s.knob("b", 16)
    s.constrain("a * b <= 64")


@refused("condition")
def condition():
    """A form of a stage depends on something that is not known before the kernel runs."""
    s = matmul.schedule()
    s.specialize("C.update", "A[0, 0] == 0", "zero")


@refused("partition")
def partition():
    """The loop is to be parted, and no condition inside depends on it alone."""
    s = matmul.schedule()
    s["C.update"].partition("k")
    matmul.compile(s)


@refused("layout")
def layout():
    """The index map is none, has another number of axes than the tensor, or is not one-to-one."""
    s = matmul.schedule()
    s.layout("B", "k j -> j k//2")


@refused("text")
def text():
    """A directive that was made by hand has no text form."""
    half = cast(Any, 0.5)
    format_directive(Directive("knob", operands=("tile",), options=(("=", half),)))


@refused("kind")
def kind():
    """Something else is compiled than a schedule."""
    matmul.compile("schedule matmul")


@refused("algorithm")
def algorithm():
    """The schedule is for another algorithm, or another version of it."""
    matmul.compile(add.schedule())


@refused("several")
def several():
    """A text says several schedules where one is wanted."""
    tw.parse_schedule("schedule add\n\nschedule add\n", add)


@refused("none")
def none():
    """A file has no schedule for the kernel that is asked for."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.tw")
        tw.write(path, matmul)
        tw.read(path).schedule(matmul)
