"""A chain of elementwise operations in f32."""

import halide as hl


def pipeline():
    i = hl.Var("i")
    x, y = hl.ImageParam(hl.Float(32), 1, "x"), hl.ImageParam(hl.Float(32), 1, "y")
    out = hl.Func("out")
    out[i] = hl.sqrt(hl.abs(x[i] * y[i] + x[i])) * y[i]

    def schedule():
        """Four vectors at a time in chunks."""
        chunk, inner = hl.Var("chunk"), hl.Var("inner")
        out.split(i, chunk, inner, 1 << 16).parallel(chunk).vectorize(inner, 64)

    return (x, y), out, schedule
