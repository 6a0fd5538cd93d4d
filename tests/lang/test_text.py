"""The text form of kernels: expected texts, round trips, errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from tests.lang.any_pipeline import pipelines
from tilewright.lang import boundary, expr, ir, math, reduce
from tilewright.lang.errors import DefinitionError, ParseError, TilewrightError
from tilewright.lang.func import Func, func
from tilewright.lang.pipeline import Pipeline
from tilewright.lang.symbols import rdom, sizes, vars
from tilewright.lang.tensors import Array, Table, const
from tilewright.lang.text import format_node, parse_kernel, print_kernel
from tilewright.lang.text.blocks import format_tw, read_tw
from tilewright.lang.trace import inout, read_interface, trace
from tilewright.lang.types import bf16, f32, f64, i32, i64, u8

ROOT = Path(__file__).parents[2]
M, N, K = sizes("M N K")
i, j = vars("i j")
A = Array("A", f32, (M.node, N.node))
B = Array("B", i32, (M.node,))


def matmul(A: f32[M, K], B: f32[K, N]):
    k = rdom(k=K)
    C = func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


def blur(A: f32[M, N]):
    a = boundary.repeat_edge(A)
    w = const(np.array([1, 2, 1], np.float32), "w")
    x, y = func("x"), func("y")
    x[i, j] = (a[i, j - 1] * w[0] + a[i, j] * w[1] + a[i, j + 1] * w[2]) / 4
    y[i, j] = (x[i - 1, j] + x[i, j] * 2 + x[i + 1, j]) / 4
    return y[:M, 1 : N - 1]


def histogram(A: u8[N]):
    k = rdom(k=N)
    h = func("h", i32)
    h[i] = 0
    h[A[k]] += 1
    return h[:256]


def argmax(A: f32[M, N]):
    k = rdom(k=N)
    best = func("best")
    best[i] = reduce.argmax(A[i, k])
    return best[:M]


def multiply(x: f64[N, 2], y: f64[N, 2]):
    """Complex numbers as pairs."""
    z, s = func("z"), func("s")
    z[i] = (x[i, 0] * y[i, 0] - x[i, 1] * y[i, 1], x[i, 0] * y[i, 1] + x[i, 1] * y[i, 0])
    k = rdom(k=N)
    s[()] = (0.0, 0.0)
    s[()] = (s[()][0] + z[k][0], s[()][1] + z[k][1])
    return {"product": z[:N], "sum": s[()]}


def attend(Q: bf16[M, K], lens: i64[M], scale: f32, cache: inout(bf16[N, K])):
    r = rdom(n=N, k=(0, K))
    r = r.where(r.n < lens[i])
    s, e = func("s"), func("e", bf16)
    s[i] = 0.0
    s[i] += Q[i, r.k] * cache[r.n, r.k] * scale
    t = math.exp(s[i] - scale * 2) + 1
    e[i] = t / (t + 1)
    k = rdom(q=(1, N))
    cache[k, 0] = scale + k
    return [e[:M], (s[-1:2],)]


KERNELS = [matmul, blur, histogram, argmax, multiply, attend]


def traced(fn) -> Pipeline:
    return trace(fn, read_interface(fn), {})


def same_again(p: Pipeline) -> str:
    text = print_kernel(p)
    back = parse_kernel(text)
    assert print_kernel(back) == text
    assert back.digest == p.digest
    return text


@pytest.mark.parametrize("fn", KERNELS, ids=lambda fn: fn.__name__)
def test_kernels_as_text(fn, golden) -> None:
    golden(same_again(traced(fn)))


@given(pipelines())
def test_every_pipeline_comes_back(p: Pipeline) -> None:
    same_again(p)


EXPRESSIONS = {
    "minus": (A[i, j] - (A[j, i] - 1), "A[i, j] - (A[j, i] - 1.0)"),
    "index": (A[i * 3 - M - j - 2, B[i] + 1], "A[i * 3 - M - j - 2, B[i] + 1]"),
    "number": (A[i, j] * 0.1, "A[i, j] * 0.1"),
    "typed": (expr.wrap(expr.literal(0.1, f32)), "f32(0.1)"),
    "nan": (expr.select(A[i, j] < 0, float("nan"), A[i, j]), "select(A[i, j] < 0.0, nan, A[i, j])"),
    "zero": (A[i, j] + -0.0, "A[i, j] + -0.0"),
    "masks": (~(A[i, j] < 0) | (i < 3) & (B[i] == 2), "~(A[i, j] < 0.0) | (i < 3) & (B[i] == 2)"),
    "inside": (expr.inside(i - 1, 0, M), "inside(i - 1, 0, M)"),
    "weak index": (A[i, j] + i, "A[i, j] + i"),
    "casts": (expr.cast(bf16, expr.cast(f32, B[i])), "bf16(f32(B[i]))"),
    "negative": (-(A[i, j] * 2), "-(A[i, j] * 2.0)"),
    "kept": (expr.wrap(ir.node("select", f32, (ir.TRUE, *[A[i, j].node] * 2))), "select!f32(true, A[i, j], A[i, j])"),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions(name: str) -> None:
    e, text = EXPRESSIONS[name]
    assert format_node(e.node) == text


def test_shared_parts_are_written_once() -> None:
    x = A[i, j]
    for _ in range(100):
        x = x + x
    assert len(format_node(x.node)) < 3000
    f = Func("f", f32)
    f[i, j] = x

    def kernel(A: f32[M, N]):
        x = A[i, j]
        for _ in range(100):
            x = x + x
        f = func("f")
        f[i, j] = x
        return f[:M, :N]

    assert len(same_again(traced(kernel))) < 3000


def test_depth_is_no_limit() -> None:
    def kernel(A: f32[M, N]):
        x = A[i, j]
        for k in range(10_000):
            x = -(x + 1.5) if k % 2 else 2 - x
        f = func("f")
        f[i, j] = x
        return f[:M, :N]

    p = traced(kernel)
    assert len(format_node(p.funcs[0].init.values[0])) > 50_000
    same_again(p)


def test_brackets_may_nest_deeply() -> None:
    n = 5000
    text = f"kernel f(A: f32[N]) -> C[:N]\n  C[i] = {'(' * n}A[i]{' + 1)' * n}\n"
    assert len(list(parse_kernel(text).roots())) == 2


def test_large_tables_are_bytes() -> None:
    values = np.arange(200, dtype=np.float32).reshape(2, 100)
    values[0, 3] = np.nan

    def kernel(A: f32[N]):
        w = const(values)
        f = func("f")
        f[i] = A[i] * w[1, i]
        return f[:N]

    text = same_again(traced(kernel))
    assert "base64(" in text
    np.testing.assert_array_equal(parse_kernel(text).tables[0].values, values)


def test_people_may_write_less() -> None:
    text = """
    # types follow from the definitions, sizes from the parameters
    tilewright 1
    kernel f(A: f32[M, N]   # the input
             , n: i64) -> C[:M]
        C[i] += A[i, k] ** 2 over k in 0 : N where k<n,(k!=3)
    """
    p = parse_kernel("\n".join(line[4:] for line in text.split("\n")))
    assert print_kernel(p) == (
        "kernel f(A: f32[M, N], n: i64) -> C[:M]\n  C: f32\n  C[i] = 0.0\n"
        "  C[i] += A[i, k] * A[i, k]  over k in 0:N where k < n, k != 3\n"
    )


HEAD = "kernel f(A: f32[M, K], n: i64) -> C[:M]\n"
WRONG = {
    "operand": HEAD + "  C[i] = A[i, )\n",
    "line end": HEAD + "  C[i] = A[i, 0] +\n",
    "chained": HEAD + "  C[i] = A[i, 0] < 1 < 2\n",
    "sign": HEAD + "  C[i] = 1 $ 2\n",
    "indent": HEAD + "    C[i] = 1\n  D[i] = 2\n",
    "body": "kernel f()\n",
    "python": HEAD + '  C[i] = __import__("os")\n',
    "attribute": HEAD + "  C[i] = A.shape\n",
    "version": "tilewright 7\n" + HEAD + "  C[i] = 1.0\n",
    "name": HEAD + "  C[i] = A[i, j] + 1\n",
    "array": HEAD + "  C[i] = B[i]\n",
    "function": HEAD + "  C[i] = sqrt(A[i, 0], 2)\n",
    "rank": HEAD + "  C[i] = 2.0 * A[i]\n",
    "type": HEAD + "  C[i] = A[i, 0] & 3\n",
    "literal": HEAD + "  C[i] = f32(1) + u8(300)\n",
    "unused": HEAD + "  C[i] = 0.0\n  C[i] += 1  over k in 0:K\n",
    "input": HEAD + "  A[i, j] = 3\n",
    "size": "kernel f() -> C[:M]\n  C[i] = 0.0\n",
}


def test_errors(golden) -> None:
    out = []
    for what, text in WRONG.items():
        with pytest.raises(TilewrightError) as e:
            parse_kernel(text, "a.tw")
        assert e.value.where[0].file == "a.tw" and e.value.where[0].column is not None
        out.append(f"{what}: {type(e.value).__name__}\n{e.value}\n")
    golden("\n".join(out))


def test_definitions_know_their_line() -> None:
    text = print_kernel(traced(matmul))
    f = parse_kernel(text, "m.tw", first_line=10).funcs[0]
    assert [str(d.location) for d in f.definitions] == ["m.tw:12:3", "m.tw:13:3"]


def test_a_file_holds_kernels_and_schedules(tmp_path) -> None:
    kernel = print_kernel(traced(matmul))
    text = format_tw([kernel, "schedule matmul\n  C.update:\n    unroll i\n", print_kernel(traced(blur))])
    file = tmp_path / "a.tw"
    file.write_text(text, encoding="utf-8")
    blocks = read_tw(file)
    assert blocks == [type(b)(b.kind, b.text, str(file), b.first_line) for b in read_tw(text)]
    assert [(b.kind, b.first_line) for b in blocks] == [("kernel", 3), ("schedule", 8), ("kernel", 12)]
    assert blocks[0].text == kernel
    assert format_tw(b.text for b in blocks) == text
    with pytest.raises(ParseError, match="found 'import', expected kernel or schedule"):
        read_tw("# c\nimport os\n")
    with pytest.raises(ParseError, match="version 2 is unknown"):
        read_tw("tilewright 2\n")


def test_the_text_does_not_depend_on_the_process() -> None:
    code = "from tests.lang.test_text import *; print(*(print_kernel(traced(k)) for k in KERNELS))"
    texts = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, check=True, cwd=ROOT,
                       capture_output=True, text=True).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(texts) == 1 and "matmul" in texts.pop()


def test_lark_is_only_imported_to_read() -> None:
    code = "from tilewright.lang.text import *; import sys; sys.exit('lark' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tables_have_names_of_their_own() -> None:
    """Two tables of one name could not be told apart, neither in the text nor in the digest."""

    def kernel(A: f32[N]):
        f = func("f")
        f[i] = A[i] * Table("w", np.ones(3, np.float32))[0] + Table("w", np.zeros(3, np.float32))[0]
        return f[:N]

    with pytest.raises(DefinitionError, match="w names a table and a table"):
        traced(kernel)


@pytest.mark.parametrize("used", [lambda at: at, lambda at: 7 - at])
def test_lets_on_the_left(used) -> None:
    """What stands twice in an update may be one of its indices, or a part of one; a name alone there is no Var then."""

    def kernel(a: i32[N]):
        f, k = func("f"), rdom(k=N)
        at = expr.clamp(expr.cast(i64, a[k]), 0, 4)
        f[i] = 0
        f[used(at)] = f[used(at)] * 2 + at
        return f[:5]

    assert "let t1" in same_again(traced(kernel))
