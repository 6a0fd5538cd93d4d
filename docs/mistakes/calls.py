"""Calls of kernels, and what is made beside them: packed inputs, views of a run, exports, functions of the user's."""

from __future__ import annotations

import numpy as np

import tilewright as tw

from . import mistaken
from .kernels import M, N, blur, matmul

i, j = tw.vars("i j")
a, b = np.zeros((4, 8), np.float32), np.zeros((8, 40), np.float32)


@tw.kernel
def scaled(x: tw.f32[N], by: tw.f32, times: tw.u8):
    f = tw.func("f")
    f[i] = x[i] * by * tw.cast(tw.f32, times)
    return f[:N]


@tw.kernel
def raised(x: tw.inout(tw.f32[N]), y: tw.inout(tw.f32[N])):
    x[i] += 1.0
    y[i] += 1.0


@tw.kernel
def ramp(by: tw.f32):
    f = tw.func("f")
    f[i] = by * i
    return f[:N]


@tw.kernel
def window(x: tw.f32[N], *, taps=3):
    f = tw.func("f")
    f[i] = sum(x[i + d] for d in range(taps))
    return f[: N - taps + 1]


@tw.kernel
def every_fourth(x: tw.f32[4 * N]):
    f = tw.func("f")
    f[i] = x[4 * i]
    return f[:N]


def panels(width: int = 16):
    s = matmul.schedule()
    s.layout("B", f"k j -> j//{width} k j%{width}")
    return matmul.compile(s)


x = np.zeros(6, np.float32)


# Arguments ------------------------------------------------------------------------------------------------------


@mistaken("argument.count")
def _():
    """More arguments than parameters, or one by position that is taken by name only."""
    scaled(x, 2.0, 3, 4)


@mistaken("argument.missing")
def _():
    """A parameter has no argument."""
    scaled(x, 2.0)


@mistaken("argument.unknown")
def _():
    """An argument by a name that no parameter has."""
    scaled(x, 2.0, 3, scale=4)


@mistaken("argument.duplicate")
def _():
    """An argument is given by position and by name."""
    scaled(x, 2.0, 3, by=4)


@mistaken("argument.static")
def _():
    """A static value is missing, or can't be a key."""
    window(x, taps=[3])


@mistaken("argument.not-array")
def _():
    """Something that is no array, and has no protocol that gives one."""
    scaled([1.0, 2.0], 2.0, 3)


@mistaken("argument.dtype")
def _():
    """An array of another type: nothing is converted behind your back."""
    scaled(x.astype(np.float64), 2.0, 3)


@mistaken("argument.rank")
def _():
    """An array with more or fewer axes."""
    scaled(x[None], 2.0, 3)


@mistaken("argument.extent")
def _():
    """An extent for which there is no size."""
    every_fourth(x)


@mistaken("argument.masked")
def _():
    """A masked array: kernels know nothing of masks."""
    scaled(np.ma.masked_equal(x, 0), 2.0, 3)


@mistaken("argument.object")
def _():
    """An array of Python objects."""
    scaled(x.astype(object), 2.0, 3)


@mistaken("argument.byte-order")
def _():
    """Numbers in the byte order of another machine."""
    scaled(x.astype(">f4"), 2.0, 3)


@mistaken("argument.misaligned")
def _():
    """Elements that are not at multiples of their size."""
    scaled(np.zeros(25, np.uint8)[1:].view(np.float32), 2.0, 3)


@mistaken("argument.read-only")
def _():
    """An array that is written and can't be."""
    raised(np.broadcast_to(np.float32(0), (6,)), x)


@mistaken("argument.overlap")
def _():
    """Two arrays that are written share memory, or the elements of one do."""
    raised(x[:4], x[2:])


@mistaken("argument.alias")
def _():
    """An output that lies on what is still read."""
    matmul(a, b[:, :8], out=a[:, :8])


@mistaken("argument.out")
def _():
    """`out=` has another structure, shape or type than the result, or can't be written."""
    scaled(x, 2.0, 3, out=np.zeros(5, np.float32))


@mistaken("argument.scalar-kind")
def _():
    """A scalar of another kind: a text for a number, a fraction for an integer."""
    scaled(x, 2.0, 3.5)


@mistaken("argument.scalar-range")
def _():
    """A number that the type of the parameter does not hold."""
    scaled(x, 2.0, 300)


@mistaken("argument.scalar-type")
def _():
    """A number of NumPy's with more digits than the type of the parameter has. (Python's numbers are rounded.)"""
    scaled(x, np.float64(0.1), 3)


@mistaken("argument.threads")
def _():
    """`threads=` is no positive integer."""
    scaled(x, 2.0, 3, threads=0)


# Sizes ----------------------------------------------------------------------------------------------------------


@mistaken("argument.size-mismatch")
def _():
    """Two arrays say different things of one size."""
    matmul(a, b[:7])


@mistaken("argument.size-undetermined")
def _():
    """Nothing says a size: no input, no `sizes=`, no `out=`."""
    ramp(2.0)


@mistaken("argument.size-unknown")
def _():
    """`sizes=` names a size that the kernel does not have."""
    ramp(2.0, sizes={"M": 3})


@mistaken("argument.size-kind")
def _():
    """A size that is no integer, or `sizes=` that is no dict."""
    ramp(2.0, sizes={"N": 3.0})


@mistaken("argument.size-negative")
def _():
    """A size below 0."""
    ramp(2.0, sizes={"N": -1})


@mistaken("argument.size-large")
def _():
    """A size that no array can have."""
    ramp(2.0, sizes={"N": 2**63})


@mistaken("argument.range")
def _():
    """Index arithmetic that leaves 64 bits at these sizes."""

    @tw.kernel
    def far(x: tw.f32[N]):
        f = tw.func("f")
        f[i] = x[tw.clamp(i + M * M, 0, N - 1)]
        return f[:N]

    far(x, sizes={"M": 2**40})


@mistaken("argument.size-open")
def _():
    """An export for given sizes has to be given all of them."""
    matmul.export(sizes={"M": 4})


# Packed inputs --------------------------------------------------------------------------------------------------


@mistaken("argument.packed-none")
def _():
    """The schedule has no layout for that input."""
    panels().prepack("A", a)


@mistaken("argument.packed-array")
def _():
    """What is to be packed is not of the parameter's type."""
    panels().prepack("B", b.astype(np.float64))


@mistaken("argument.packed-foreign")
def _():
    """A handle of another kernel or parameter."""
    packed = panels().prepack("B", b)
    scaled.compile()(packed, 2.0, 3)


@mistaken("argument.packed-schedule")
def _():
    """A handle, and a schedule that has no layout for the input."""
    packed = panels().prepack("B", b)
    matmul.compile()(a, packed)


@mistaken("argument.packed-layout")
def _():
    """A handle in another layout than the schedule's."""
    packed = panels(width=8).prepack("B", b)
    panels(width=16)(a, packed)


@mistaken("argument.packed-file")
def _():
    """Files that are damaged, or that no handle was saved to."""
    tw.Packed.load("nowhere")


# Looking at a run -----------------------------------------------------------------------------------------------


@mistaken("argument.element")
def _():
    """`kernel.why` is asked for an element that the result does not have."""
    scaled.why(x, 2.0, 3, out=(6,))


@mistaken("argument.trace")
def _():
    """More stores than are recorded."""
    scaled.trace(sizes={"N": 1000}, room=10)


@mistaken("argument.seconds")
def _():
    """`seconds=` of a profile is no positive number."""
    scaled.compile().profile(x, 2.0, 3, seconds=0)


@mistaken("argument.compare")
def _():
    """`tw.compare` of things that are no pair."""
    tw.compare(matmul, "toy", sizes={"M": 4, "N": 4, "K": 4})


@mistaken("argument.sweep")
def _():
    """`tw.sweep` over nothing."""
    tw.sweep(matmul, machine="toy", sizes={"M": 4, "N": 4, "K": 4}, over={})


# Bounds ---------------------------------------------------------------------------------------------------------


@mistaken("bounds.input")
def _():
    """More of an input is read than there is."""

    @tw.kernel
    def shifted(x: tw.f32[N]):
        f = tw.func("f")
        f[i] = x[i + 1]
        return f[:N]

    shifted(x)


@mistaken("bounds.output")
def _():
    """An output that stops before it starts."""
    window(x, taps=9)


@mistaken("bounds.unbounded")
def _():
    """An index from data, of which nothing says how far it goes."""

    @tw.kernel
    def counts(at: tw.i64[N]):
        f = tw.func("f")
        f[i] = at[at[i]]
        return f[:N]

    counts(np.zeros(3, np.int64))


@mistaken("bounds.schedule")
def _():
    """The schedule promises something that does not hold at these sizes."""
    s = blur.schedule()
    s["down"].bound("x", 0, 8)
    blur.compile(s)(np.zeros((5, 20), np.float32))


# Functions of the user's ------------------------------------------------------------------------------------------


@mistaken("extern.compile")
def _():
    """A function that Numba can't compile."""
    strange = tw.extern(lambda v: v.nothing, result=tw.f64, args=(tw.f64,), name="strange")

    @tw.kernel
    def calls(x: tw.f64[N]):
        f = tw.func("f")
        f[i] = strange(x[i])
        return f[:N]

    calls(np.zeros(3))


@mistaken("extern.raises")
def _():
    """A function that may raise an exception, which native code can't pass on."""

    def root(v):
        if v < 0:
            raise ValueError("negative")
        return v**0.5

    checked = tw.extern(root, result=tw.f64, args=(tw.f64,))

    @tw.kernel
    def calls(x: tw.f64[N]):
        f = tw.func("f")
        f[i] = checked(x[i])
        return f[:N]

    calls(np.zeros(3))


@mistaken("extern.failed")
def _():
    """The function of a stage raises something."""

    @tw.extern_stage
    def fails(out, x):
        raise ValueError("no such luck")

    @tw.kernel
    def calls(x: tw.f64[N]):
        f = tw.func("f", tw.f64)
        f[i] = fails(x.box[i])
        return f[:N]

    calls(np.zeros(3))


@mistaken("extern.kept")
def _():
    """The function of a stage keeps a view, whose memory is used again."""
    kept = []

    @tw.extern_stage
    def keeps(out, x):
        out[...] = x
        kept.append(x)

    @tw.kernel
    def calls(x: tw.f64[N]):
        f, g = tw.func("f"), tw.func("g", tw.f64)
        f[i] = x[i] * 2
        g[i] = keeps(f.box[i])
        return g[:N]

    calls(np.zeros(3))


# Exports --------------------------------------------------------------------------------------------------------


@mistaken("argument.export")
def _():
    """A form that there is not, or a text that is no export."""
    matmul.export(to="fortran")


@mistaken("export.stage")
def _():
    """A stage that is a Python function can't be exported."""

    @tw.extern_stage
    def sort(out, x):
        out[...] = np.sort(x)

    @tw.kernel
    def calls(x: tw.f64[N]):
        f = tw.func("f", tw.f64)
        f[i] = sort(x.box[0:N])
        return f[:N]

    calls.export()


@mistaken("export.table")
def _():
    """A table with more elements than a document is to have."""
    large = tw.const(np.arange(2_000_000, dtype=np.float32), name="large")

    @tw.kernel
    def looks(x: tw.f32[N]):
        f = tw.func("f")
        f[i] = x[i] * large[tw.clamp(i, 0, 1_999_999)]
        return f[:N]

    looks.export()
