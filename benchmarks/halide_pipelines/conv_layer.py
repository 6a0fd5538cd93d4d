"""A convolutional layer, 3x3 with padding, bias and rectifier, channels last, in f32."""

import halide as hl


def pipeline():
    o, x, y, n = (hl.Var(v) for v in ("o", "x", "y", "n"))
    image, weights = hl.ImageParam(hl.Float(32), 4, "image"), hl.ImageParam(hl.Float(32), 4, "weights")
    bias = hl.ImageParam(hl.Float(32), 1, "bias")
    r = hl.RDom([(0, image.dim(0).extent()), (0, 3), (0, 3)], "r")
    everything, (_, wide, high) = (hl.Expr(), hl.Expr()), (image.dim(d).extent() for d in range(3))
    padded = hl.BoundaryConditions.constant_exterior(image, hl.f32(0), [everything, (0, wide), (0, high), everything])
    total, out = hl.Func("total"), hl.Func("out")
    total[o, x, y, n] = bias[o]
    total[o, x, y, n] += padded[r.x, x + r.y - 1, y + r.z - 1, n] * weights[o, r.x, r.y, r.z]
    out[o, x, y, n] = hl.max(total[o, x, y, n], hl.f32(0))

    def schedule():
        """Strips of rows whose input is staged; a tile of pixels by channels stays in registers for all of its sums."""
        lanes, pixels, rows = 16, 8, 4
        xo, xi, oo, oi, yo, yi = (hl.Var(v) for v in ("xo", "xi", "oo", "oi", "yo", "yi"))
        out.split(y, yo, yi, rows).tile(o, x, oo, xo, oi, xi, 2 * lanes, pixels)
        out.reorder(oi, xi, xo, yi, oo, yo, n).vectorize(oi, lanes).unroll(oi).unroll(xi).parallel(yo)
        total.compute_at(out, xo).vectorize(o, lanes).unroll(o).unroll(x)
        total.update().reorder(o, x, r.x, r.y, r.z).vectorize(o, lanes).unroll(o).unroll(x)
        padded.compute_at(out, yo).vectorize(padded.args()[0], lanes, hl.TailStrategy.GuardWithIf)

    return (image, weights, bias), out, schedule
