"""What a compiled kernel shows of itself, and whose threads it runs on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilewright as tw

N = tw.sizes("N")


@tw.kernel
def double(A: tw.f32[N]):
    i, f = tw.vars("i"), tw.func("f")
    f[i] = A[i] * 2.0
    return f[:N]


def test_every_pass_can_be_dumped() -> None:
    fast = double.compile()
    made = fast.build()
    for name in made.lowered.results:
        assert fast.dump(name).strip(), name
    took = fast.timings
    assert list(took) == ["schedule", *made.lowered.timings, "emit", "optimise", "machine code"]
    assert all(seconds >= 0 for seconds in took.values()) and took["schedule"] > 0
    with pytest.raises(tw.CompileError) as e:
        fast.dump("nothing")
    assert "nest" in str(e.value)


def test_source_llvm_and_machine_code() -> None:
    fast = double.compile()
    assert "for " in fast.source and "out.f[" in fast.source
    assert "define i32 @tw_double" in fast.llvm
    assert "tw_double" in fast.asm


def test_the_callers_own_executor() -> None:
    x = np.arange(200_000, dtype=np.float32)
    s = double.schedule()
    s["f"].parallel("i", 1000)
    with ThreadPoolExecutor(2) as pool:
        got = double.compile(s)(x, executor=pool, threads=2)
    assert np.array_equal(got, x * 2)
