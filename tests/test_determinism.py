"""The same texts, keys and objects in every process, whatever Python's hash seed is."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import hashlib
import numpy as np
import tilewright as tw
from tilewright.codegen.compile import compile_schedule
from tilewright.lang.text import print_kernel
from tilewright.schedule.default import complete

M, N = tw.sizes("M N")

def _first(e):
    w = tw.func("best")
    i = tw.vars("i")
    w[i] = tw.argmax(e[i, tw.rdom(r=N)])
    return w[:M]

@tw.kernel
def soft(A: tw.f32[M, N], B: tw.bf16[N], s: tw.f32):
    i, j = tw.vars("i j")
    k = tw.rdom(k=N)
    edge = tw.repeat_edge(A)
    m, e, o = tw.func("m"), tw.func("e"), tw.func("o")
    m[i] = tw.max(A[i, k] * s, over=k)
    e[i, j] = tw.exp(edge[i, j + 1] - m[i]) + B[j]
    o[i, j] = e[i, j] / tw.sum(e[i, tw.rdom(q=N)])
    return {"o": o[:M, :N], "at": _first(e)}

p = soft.pipeline()
full = complete(soft.schedule())
fast = soft.compile()
made = fast.build()
for text in (p.digest, print_kernel(p), str(full), str(full.loops()), made.llvm, made.symbol):
    print(hashlib.sha256(text.encode()).hexdigest())
print(hashlib.sha256(made.image).hexdigest())
"""


def test_twenty_hash_seeds_give_the_same_texts_keys_and_objects() -> None:
    seen = set()
    for seed in range(20):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": str(seed)}, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        assert len(run.stdout.split()) == 7
        seen.add(run.stdout)
    assert len(seen) == 1
