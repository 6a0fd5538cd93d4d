"""tensorize: which loops are a block of a matrix product, what a unit can do, and what stays as it was."""

from __future__ import annotations

import pytest

from tests.schedule.algorithms import K, M, N, blur, made, matmul, prefix_sum
from tests.schedule.helpers import good, refused
from tests.schedule.native import natively
from tilewright.hw import load_machine, machine_text, parse_machine
from tilewright.lang import expr
from tilewright.lang.errors import ScheduleError
from tilewright.lang.func import func
from tilewright.lang.symbols import rdom
from tilewright.lang.symbols import vars as variables
from tilewright.lang.types import i8, i32
from tilewright.schedule.schedule import Schedule


def unit_machine():
    """The toy with another unit: integers, any k."""
    text = machine_text(load_machine("toy"))
    text = (
        text[: text.index("[[unit]]")]
        + """[[unit]]
name = "mma"
shape = { m = 4, n = 8, k = "any" }
types = { a = "i32", b = "i32", c = "i32" }
memories = { a = "spm", b = "spm", c = "spm" }
interval = "m + n + k - 2"
"""
    )
    return parse_machine(text)


def block(machine=None, m: int = 4, n: int = 8, k: int = 3) -> Schedule:
    s = Schedule(matmul(), machine)
    C = s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", m, n).split("k", "ko", "ki", k)
    C.reorder("io", "jo", "ko", "ii", "ji", "ki")
    s.cache_read("A", at="C.update.ko", memory="spm")
    s.cache_read("B", at="C.update.ko", memory="spm")
    s.cache_write("C", at="C.update.jo", memory="spm")
    return s


def test_nest(golden):
    s = block(unit_machine())
    s["C.update"].tensorize("ii", "mma")
    golden(f"{s}\n\n{good(s)}")
    natively(s, {"M": 9, "N": 17, "K": 5})


def test_it_is_a_call_whatever_stands_outside():
    for loop in ("jo", "ko", "ii", "ji", "ki"):
        s = Schedule(matmul())
        C = s["C.update"].tile("i", "j", "io", "jo", "ii", "ji", 2, 4).split("k", "ko", "ki", 3)
        C.reorder("io", "jo", "ko", "ii", "ji", "ki").tensorize(loop, "mma")
        good(s)


def test_what_it_covers():
    on = unit_machine()
    for m, n, k in ((4, 8, 100), (1, 1, 1), (8, 4, 2)):  # the last one the other way round
        s = block(on, m, n, k)
        s["C.update"].tensorize("ii", "mma")
        good(s)
    for m, n in ((5, 8), (8, 5), (9, 1)):
        s = block(on, m, n)
        refused(s, "unit-shape", lambda s=s: s["C.update"].tensorize("ii", "mma"), "blocks of m 4, n 8, k any")


def test_operands():
    s = block(unit_machine())
    s["A_C"].store_in("main")
    refused(s, "unit-operands", lambda: s["C.update"].tensorize("ii", "mma"), "a is A_C, which is in dram")
    s["A_C"].store_in("spm")
    s["C.update"].tensorize("ii", "mma")
    refused(s, "unit-operands", lambda: s["A_C"].store_in("main"))
    s = block("toy", 4, 4, 4)
    refused(s, "unit-operands", lambda: s["C.update"].tensorize("ii", "mma"), "which is i32")
    refused(s, "unit", lambda: s["C.update"].tensorize("ii", "nma"), "did you mean mma")


def test_casts_of_operands():
    def narrow(A: i8[M, K], B: i8[K, N]):
        i, j = variables("i j")
        k = rdom(k=K)
        C = func("C", i32)
        C[i, j] = 0
        C[i, j] += expr.cast(i32, A[i, k]) * expr.cast(i32, B[k, j])
        return C[:M, :N]

    s = Schedule(made(narrow))
    s["C.update"].split("k", "ko", "ki", 4).tensorize("ki", "dot")
    good(s)


def test_what_is_no_product():
    s = Schedule(blur())
    refused(s, "unit-form", lambda: s["blur_y"].tensorize("y", "mma"), "not the sum of a product")
    s = Schedule(prefix_sum())
    refused(s, "unit-form", lambda: s["s.update"].tensorize("k", "mma"))

    def conv(A: i32[M], B: i32[N]):
        p = variables("p")
        r = rdom(r=3)
        O = func("O")
        O[p] = 0
        O[p] += A[p + r] * B[r]
        return O[: M - 2]

    s = Schedule(made(conv))
    refused(s, "unit-form", lambda: s["O.update"].tensorize("p", "mma"), "one index is made of p and r")
    s["O.update"].tensorize("r", "mma")
    good(s)


def test_what_stands_inside():
    s = block()
    C = s["C.update"]
    refused(s, "unit-inside", lambda: C.tensorize("jo", "mma"), "A_C, B_C, C_tile")
    C.tensorize("ii", "mma")
    refused(s, "unit-inside", lambda: C.tensorize("ki", "mma"), "mma too")
    refused(s, "unit-inside", lambda: C.parallel("ji"))
    refused(s, "unit-inside", lambda: C.spatial("ji", "x"))
    refused(s, "unit-inside", lambda: s.cache_write("C", at="C.update.ji"))
    refused(s, "unit-inside", lambda: s.prefetch("A_C", at="C.update.ko"), "prefetches")
    for act in ("vectorize", "unroll", "parallel"):
        refused(s, "loop-mode", lambda act=act: getattr(C, act)("ii"), "done by mma already")
    refused(s, "loop-mode", lambda: C.split("ii", "a", "b", 2))
    C.vectorize("ji").serial("ii")
    assert "by mma" not in str(s.loops())
    good(s)


@pytest.mark.parametrize("sizes", [{"M": 9, "N": 17, "K": 7}, {"M": 4, "N": 8, "K": 3}, {"M": 1, "N": 1, "K": 1}])
def test_the_account(sizes):
    """Every call reads its operands once and takes m + n + k - 2 cycles of its own extents."""
    from tilewright.kernels import from_pipeline

    kernel = from_pipeline(matmul())
    s = block(unit_machine())
    s["C.update"].tensorize("ii", "mma")
    run, account = kernel.simulate(s, sizes=sizes).account, kernel.account(s, sizes=sizes)
    assert run.traffic == account.traffic and run.operations == account.operations

    def parts(n: int, by: int) -> list[int]:
        return [min(by, n - x) for x in range(0, n, by)]

    calls = [(m, n, k) for m in parts(sizes["M"], 4) for n in parts(sizes["N"], 8) for k in parts(sizes["K"], 3)]
    assert account.of("spm", "A_C").served == sum(m * k for m, n, k in calls)
    assert account.of("spm", "B_C").served == sum(k * n for m, n, k in calls)
    assert account.of("spm", "C_tile").updates == sum(m * n for m, n, k in calls)
    assert account.operations["mma"] == 2 * sizes["M"] * sizes["N"] * sizes["K"]
    busy = next(u.busy for u in account.time.uses if u.resource == "mma")
    assert busy == sum(m + n + k - 2 for m, n, k in calls)


def test_a_machine_without_the_unit():
    """Where no machine is bound it shows when one is met, before anything is prepared for it."""
    from tilewright.kernels import from_pipeline

    kernel, s = from_pipeline(matmul()), block()
    s["C.update"].tensorize("ii", "other")
    sizes = {"M": 4, "N": 8, "K": 3}
    for act in (kernel.simulate, kernel.account):
        with pytest.raises(ScheduleError) as e:
            act(s, machine="toy", sizes=sizes)
        assert e.value.code == "schedule.unit"
