"""Code as for a processor without AVX-512."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tilewright.codegen import target
from tilewright.schedule import processor
from tilewright.schedule.registers import Registers

PROGRAM = """
import re
import numpy as np
import tilewright as tw

N = tw.sizes("N")

@tw.kernel
def chain(a: tw.f32[N], b: tw.i32[N]):
    i = tw.vars("i")
    f = tw.func("f")
    f[i] = tw.select(b[i] > 3, tw.exp(a[i]) * 2, a[i] + tw.cast(tw.f32, b[i]))
    return f[:N]

fast = chain.compile()
a, b = np.linspace(-3, 3, 1001, dtype=np.float32), np.arange(1001, dtype=np.int32) % 7
assert np.allclose(fast(a, b), chain.reference(a, b), rtol=1e-6)
print(tw.host_registers(), bool(re.search(r"zmm|%k[0-7]", fast.asm)), "ymm" in fast.asm)
"""


@pytest.mark.skipif(not processor.host_features().get("avx2"), reason="it needs AVX2")
def test_a_process_without_avx512() -> None:
    env = {**os.environ, processor.AVX512: "0"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == f"{Registers(32, 16)} False True", done.stderr


def test_features_are_those_that_code_is_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {x[1:]: x[0] == "+" for x in target.host().features.split(",")}
    assert named == dict(processor.host_features())
    monkeypatch.setenv(processor.AVX512, "0")
    without = processor.host_features.__wrapped__()
    assert not any(there for name, there in without.items() if "avx512" in name)
    assert {n for n, there in without.items() if there} <= {n for n, there in named.items() if there}
