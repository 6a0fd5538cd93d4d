"""Graphs as text: every operator can be written and read back, and what is wrong with a graph is said at its line."""

from __future__ import annotations

import gc
import warnings

import pytest

import tilewright as tw
from tests.lang import every_operator
from tilewright import ops
from tilewright.lang.errors import DefinitionError, UnusedWarning


def test_there_is_a_graph_for_every_operator():
    assert {n for n in ops.__all__ if n != "Value"} == every_operator.GRAPHS.keys()


@pytest.mark.parametrize("name", every_operator.GRAPHS)
def test_every_operator_can_be_written_and_read(name):
    k = every_operator.kernel(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = tw.parse_kernel(str(k))
    assert again.pipeline().digest == k.pipeline().digest
    assert str(again) == str(k)


WRONG = {
    "cycle": ("f[i] = g[i] + a[i]; g[i] = f[i] * 2", "cycle", 2, "f depends on itself: f reads g reads f"),
    "a long cycle": ("f[i] = h[i]; g[i] = f[i] * 2; h[i] = g[i]", "cycle", 2, "f reads h reads g reads f"),
    "declared cycle": ("f: f32; g: f32; f[i] = g[i]; g[i] = f[i]", "cycle", 4, "f reads g reads f"),
    "cycle by an update": ("f[i] = a[i]; g[i] = f[i] * 2; f[i] += g[i]", "cycle", 1, "f and g depend on each other"),
    "itself": ("g[i] = g[i] * 2", "undefined", 2, "g is used before it is defined"),
    "too late": ("g[i] = h[i] * 2; h[i] = a[i]", "undefined", 2, "h is used before it is defined"),
    "dangling": ("g[i] = hh[i] * 2", "unknown-name", 2, "unknown array or Func hh"),
    "declared only": ("h: f32; g[i] = h[i] * 2", "undefined", 3, "h is used before it is defined"),
    "no such output": ("gg[i] = a[i]", "unknown-name", 1, "unknown array or Func g"),
    "another rank": ("g[i] = a[i, i]", "rank", 2, "a has 1 axis and is indexed with 2"),
    "output of another rank": ("g[i, j] = a[i]", "rank", 1, "g has 2 axes"),
    "input defined": ("a[i] = 1; g[i] = a[i]", "input-defined", 2, "a is an input and is defined here"),
}


def text(lines):
    return "\n".join(["kernel graph(a: f32[N]) -> g[:N]", *(f"  {x.strip()}" for x in lines.split(";"))]) + "\n"


@pytest.mark.parametrize("name", WRONG)
def test_wrong_graphs_are_refused_at_their_line(name):
    lines, code, line, message = WRONG[name]
    with pytest.raises(DefinitionError) as e:
        tw.parse_kernel(text(lines), "graph.tw")
    assert e.value.code == f"definition.{code}"
    assert (e.value.where[0].file, e.value.where[0].line) == ("graph.tw", line)
    assert message in e.value.message


def test_names_that_are_nearly_right_are_proposed():
    with pytest.raises(DefinitionError) as e:
        tw.parse_kernel(text("; ".join(f"layer{k}_out[i] = a[i]" for k in range(60)) + "; g[i] = layer7_ot[i]"))
    assert e.value.hint.startswith("did you mean layer7_out? known: a, layer0_out")
    assert len(e.value.hint) < 400


@pytest.mark.parametrize(
    ("lines", "line"),
    [("h[i] = a[i] * 3; g[i] = a[i]", 2), ("g[i] = a[i]; h: f32", 3), ("h[i] = a[i]; h[i] += 1; g[i] = a[i]", 2)],
)
def test_what_nothing_needs_is_said(lines, line):
    with pytest.warns(UnusedWarning, match="h is .*, and no result of graph needs it") as said:
        k = tw.parse_kernel(text(lines), "graph.tw")
    assert [f.name for f in k.pipeline().funcs] == ["g"]
    assert [(w.filename, w.lineno) for w in said] == [("graph.tw", line)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tw.parse_kernel(text("h[i] = a[i]; g[i] = h[i]"))


def test_reading_leaves_the_collector_as_it_was():
    for on in (True, False):
        (gc.enable if on else gc.disable)()
        try:
            tw.parse_kernel(text("g[i] = a[i]"))
            with pytest.raises(DefinitionError):
                tw.parse_kernel(text("g[i] = b[i]"))
            assert gc.isenabled() == on
        finally:
            gc.enable()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a[i] - a[i] - a[i]", "(a[i] - a[i]) - a[i]"),
        ("a[i] + a[i] * a[i] + 1", "(a[i] + (a[i] * a[i])) + 1"),
        ("-a[i] * a[i] / 2 * a[i]", "(((-a[i]) * a[i]) / 2) * a[i]"),
        ("select(a[i] < 1 + a[i], a[i], -a[i] ** 2)", "select((a[i] < (1 + a[i])), a[i], -(a[i] ** 2))"),
        ("select((a[i] < 1) & (a[i] > 0) | (a[i] == 3) ^ (a[i] != 2), 1.0, 2.0)",
         "select(((a[i] < 1) & (a[i] > 0)) | ((a[i] == 3) ^ (a[i] != 2)), 1.0, 2.0)"),
        ("f32(i32(a[i]) << 1 + 2 & 7)", "f32((i32(a[i]) << (1 + 2)) & 7)"),
        ("f32(i32(a[i]) // 3 % 2 - 5 >> 1)", "f32((((i32(a[i]) // 3) % 2) - 5) >> 1)"),
    ],
)  # fmt: skip
def test_operators_bind_as_in_python(written, meant):
    one, other = (tw.parse_kernel(text(f"g[i] = {x}")).pipeline() for x in (written, meant))
    assert one.digest == other.digest
