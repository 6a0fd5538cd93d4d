"""Files for the command line: a small program with kernels and schedules, and texts."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tilewright.cli import main

PROGRAM = """\
import numpy as np
import tilewright as tw

print("this program prints when it is loaded")
M, N, K = tw.sizes("M N K")
T = tw.dtype_var("T", tw.f32, tw.f64)


@tw.kernel
def matmul(A: tw.f32[M, K], B: tw.f32[K, N]):
    i, j = tw.vars("i j")
    k = tw.rdom(k=K)
    C = tw.func("C")
    C[i, j] = 0.0
    C[i, j] += A[i, k] * B[k, j]
    return C[:M, :N]


@tw.kernel
def window(x: T[N], *, taps):
    i = tw.vars("i")
    out = tw.func("out")
    out[i] = sum(x[i + d] for d in range(taps))
    return out[: N - taps + 1]


@tw.kernel
def accumulate(y: tw.inout(tw.f32[N]), a: tw.f32):
    i = tw.vars("i")
    y[i] += a


@tw.kernel
def roots(x: tw.f32[N], shift: tw.f32):
    k = tw.rdom(k=N)
    s = tw.func("s")
    s[()] = 0.0
    s[()] += tw.sqrt(tw.abs(x[k]) + shift)
    return s[()]


def in_lanes():
    s = roots.schedule()
    s["s.update"].vectorize("k", 4)
    return s


def tiled():
    s = matmul.schedule()
    C = s["C.update"]
    C.split("i", "io", "ii", 4).split("j", "jo", "ji", 8)
    C.reorder("jo", "io", "k", "ii", "ji").unroll("ii").vectorize("ji")
    s.cache_write("C", at="C.update.io", memory="reg")
    return s


def lanes():
    s = matmul.schedule()
    s["C.update"].vectorize("k", 4)
    return s


def filled(s):
    s["C.update"].vectorize("j", 8)


def staged():
    s = matmul.schedule()
    s["C.update"].split("i", "io", "ii", 64)
    s.cache_read("B", at="C.update.io", memory="spm")
    return s


def early():
    s = matmul.schedule()
    C = s["C.update"]
    C.split("i", "io", "ii", 4).reorder("io", "j", "k", "ii")
    s.cache_write("C", at="C.update.io", memory="reg")  # of constant size only after the next directives
    C.split("j", "jo", "ji", 8).reorder("jo", "io", "k", "ii", "ji").vectorize("ji")
    return s


def never():
    s = matmul.schedule()
    s.cache_write("C", at="C.update.i", memory="reg")
    return s


def broken():
    return matmul.schedule()["C.update"].split("i", "io", "ii", undefined)


def illegal():
    s = matmul.schedule()
    s["C.update"].vectorize("nowhere")
    return s


def number():
    return 3


def two(a, b):
    return a
"""

TEXT = """\
tilewright 1

kernel double(A: f32[N]) -> B[:N]
  B: f32
  B[x] = A[x] * 2.0

schedule double
  B:
    vectorize x by 8
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("programs")
    files = {
        "program.py": PROGRAM,
        "double.tw": TEXT,
        "other.tw": TEXT.replace("vectorize x by 8", "vectorize x by 4").split("\n\n", 2)[2],
        "unread.tw": "kernel double(A: f32[N]) -> B[:N]\n  B: f32\n  B[x] = A[x] *\n",
        "empty.py": "x = 1\n",
        "syntax.py": "def f(:\n    pass\n",
        "raises.py": "x = 1\n\ny = x / 0\n",
        "leaves.py": "import sys\nsys.exit(5)\n",
        "undefined.py": "import tilewright as tw\n\nN = tw.sizes('N')\n\n\n@tw.kernel\ndef bad(A: tw.f32[N]):\n"
        "    f = tw.func('f')\n    return f[:N]\n",
        "latin.tw": b"kernel \xe9".decode("latin-1"),
        "notes.txt": "nothing",
    }
    for name, text in files.items():
        (made / name).write_text(textwrap.dedent(text), encoding="latin-1" if name == "latin.tw" else "utf-8")
    return made


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """`run("show", "program.py")` runs the command line in the folder of the programs."""
    monkeypatch.chdir(folder)

    def command(*arguments: str) -> Outcome:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as e:  # argparse ends the program by itself
            code = int(e.code or 0)
        return Outcome(code, *capsys.readouterr())

    return command
