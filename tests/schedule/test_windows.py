"""Chains of sliding windows: each row once, regions that stay short, the reference's values."""

from __future__ import annotations

import itertools

import pytest

from tests.schedule.algorithms import made
from tests.schedule.helpers import agrees
from tests.schedule.native import natively
from tilewright.lang import boundary, ir, simplify
from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import func
from tilewright.lang.intervals import Interval
from tilewright.lang.ir import integer
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.symbols import sizes, vars
from tilewright.lang.types import i32
from tilewright.lang.values import index_value
from tilewright.schedule import windows
from tilewright.schedule.ranges import Range
from tilewright.schedule.schedule import Schedule

M, N = sizes("M N")
ZERO = integer(0)


def chain(steps: int, edges: str, flipped: bool = False, wide: int = 1) -> Pipeline:
    """`steps` stencils one after the other, each reading `wide` rows beyond its own both ways."""

    def chain(A: i32[M, N]):
        y, x = vars("y x")
        before = A
        for k in range(steps):
            u = func(f"u{k}")
            line = M - 1 - y if flipped and k == steps - 1 else y
            e = {
                "clamped": lambda b: boundary.repeat_edge(b, (0, M), (0, N)),
                "zero": lambda b: boundary.constant_exterior(b, 0, (0, M), (0, N)),
            }[edges](before)
            u[y, x] = e[line - wide, x] + 2 * e[line, x] - e[line + wide, x] + e[line, x - 1]
            before = u
        return before[:M, :N]

    return made(chain)


def sliding(p: Pipeline, steps: int, strip: int = 0, fold: int = 0) -> Schedule:
    """Every stage computed in the rows of the last one, and kept."""
    s = Schedule(p)
    last = s[f"u{steps - 1}"]
    if strip:
        last.split("y", "strip", "y", strip)
    for k in reversed(range(steps - 1)):
        u = s[f"u{k}"].compute_at(f"u{steps - 1}.y")
        u = u.store_at(f"u{steps - 1}.strip") if strip else u.store_root()
        if fold:
            u.fold_storage("y", fold)
    return s


@pytest.mark.parametrize("edges", ["clamped", "zero"])
@pytest.mark.parametrize("strip", [0, 5])
@pytest.mark.parametrize("flipped", [False, True])
def test_values(edges, strip, flipped):
    s = sliding(chain(4, edges, flipped), 4, strip)
    for m, n in ((9, 3), (1, 2), (2, 1), (6, 1), (12, 4)):
        agrees(s, {"M": m, "N": n})


@pytest.mark.parametrize("flipped", [False, True])
def test_values_native_and_folded(flipped):
    s = sliding(chain(4, "zero", flipped), 4, 6, 7)
    s["u3"].vectorize("x", 4)
    natively(s, *({"M": m, "N": n} for m in (0, 1, 2, 5, 6, 7, 13, 40) for n in (0, 1, 5)))


@pytest.mark.parametrize("edges", ["clamped", "zero"])
def test_every_stage_slides_and_bounds_stay_short(edges):
    lengths = []
    for steps in (4, 7, 10):
        s = sliding(chain(steps, edges), steps, 32, 2 * steps)
        notes = s.report().of("sliding")
        assert len(notes) == steps - 1 and all(n.done for n in notes)
        lengths.append(max(len(line) for line in str(s.loops()).splitlines() if "produce" in line))
    assert lengths[2] - lengths[1] <= 8, lengths  # digits of constants


def test_new_rows_only():
    """Beyond the first iteration of a strip a stage computes a row, or none where the edge has been reached."""
    text = str(sliding(chain(3, "clamped"), 3, 16).loops())
    new = "select(y > 0, min(M, 16*strip + y + 2), max(16*strip - 2, 0))..min(M, 16*strip + y + 3)"
    assert f"produce u0 over y {new}" in text
    assert "produce u1 over y select(y > 0, 16*strip + y + 1, max(16*strip - 1, 0))..min(M, 16*strip + y + 2)" in text


def test_the_first_iteration_decides_how_much_is_folded():
    s = sliding(chain(4, "zero"), 4, 16)
    s["u0"].fold_storage("y", 6)
    with pytest.raises(ScheduleError, match="needs 7 points"):
        s.check()


# Bounds ---------------------------------------------------------------------------------------------------------


def loops() -> tuple[Range, Range]:
    """Strips of four rows of M, and the rows of a strip."""
    strip, row = ir.var("strip"), ir.var("row")
    count = simplify.floordiv(simplify.add(M.node, integer(3)), integer(4))
    rows = simplify.minimum(simplify.sub(M.node, simplify.mul(strip, integer(4))), integer(4))
    return (
        Range("strip", strip, ZERO, count, "serial", False, ()),
        Range("row", row, ZERO, rows, "serial", False, ()),
    )


def places(site: tuple[Range, ...]):
    """Values of sizes and variables at all places of the loops, for small sizes."""
    for m in range(8):
        for s, r in itertools.product(range(3), range(4)):
            env = {M.node: m, site[0].var: s, site[1].var: r}
            if all(index_value(x.start, env) <= env[x.var] < index_value(x.stop, env) for x in site):
                yield env


def test_tidied_is_equal():
    site = loops()
    at = simplify.add(simplify.mul(site[0].var, integer(4)), site[1].var)
    last = simplify.sub(M.node, integer(1))
    ends = [at, last, ZERO, *(simplify.add(at, integer(k)) for k in (-2, 1))]
    ends += [windows.choice(site[1], a, b) for a, b in ((ends[4], ends[3]), (at, ZERO))]
    seen = 0
    for a, b, c in itertools.product(ends, repeat=3):
        for n in (
            simplify.minimum(simplify.maximum(a, b), c),
            simplify.maximum(simplify.minimum(a, b), simplify.sub(c, integer(1))),
        ):
            short = windows.tidied(n, site)
            seen += short is not n
            for env in places(site):
                assert index_value(short, env) == index_value(n, env), (n, short, env)
    assert seen > 100


def test_cases_cover_both_iterations():
    site = loops()
    r = Interval(windows.choice(site[1], integer(5), ZERO), simplify.add(site[1].var, integer(6)))
    later, first = windows.cases(r, site)
    assert (later.lo, first.lo, first.hi) == (integer(5), ZERO, integer(6))
    assert windows.cases(first, site) == [first]


def test_what_takes_too_many_questions_stays():
    """Dozens of terms that nothing is known of: the expression is kept as it is, not thought about for seconds."""
    site = loops()
    n = site[1].var
    for k in range(200):
        term = simplify.add(ir.size(f"S{k}"), simplify.mul(site[0].var, integer(k)))
        n = simplify.maximum(n, term) if k % 2 else simplify.minimum(n, term)
    assert windows.tidied(n, site) is n
    assert len(simplify.spread(n, n.op)) > 1
