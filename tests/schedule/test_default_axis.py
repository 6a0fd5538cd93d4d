"""Along which axis the default schedule runs vectors: that of the result where its operands lie along it."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.schedule.default import complete

M, N, K = tw.sizes("M N K")


def kernel(name, a, b, term):
    p = tw.Pipeline(name, a=a, b=b)
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    f = tw.func("f", tw.f32)
    at = (i,) if name in ("filter", "matvec") else (i, j)
    f[at] = 0.0
    f[at] += term(p.a, p.b, i, j, k)
    return p.returns(f[:M] if len(at) == 1 else f[:M, :N])


CASES = {
    "filter": (tw.f32[M + K], tw.f32[K], lambda a, b, i, j, k: a[i + k] * b[k], "i"),
    "matvec": (tw.f32[M, K], tw.f32[K], lambda a, b, i, j, k: a[i, k] * b[k], "k"),
    "matmul": (tw.f32[M, K], tw.f32[K, N], lambda a, b, i, j, k: a[i, k] * b[k, j], "j"),
    "by_rows": (tw.f32[M, K], tw.f32[N, K], lambda a, b, i, j, k: a[i, k] * b[j, k], "j"),
    "filters": (tw.f32[M, N + K], tw.f32[M, K], lambda a, b, i, j, k: a[i, j + k] * b[i, k], "j"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_vector_axis(name):
    *parts, axis = CASES[name]
    s = complete(kernel(name, *parts).schedule())
    updates = [d.operands[0] for d in s.directives if d.kind == "vectorize" and ".update" in d.stage]
    assert updates and all(v.split("_")[0] == axis for v in updates), str(s)
