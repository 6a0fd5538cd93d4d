"""Matrix product in f32: a tile of sums in registers, which is what `tiled` of the example says."""

import halide as hl


def pipeline():
    j, i = hl.Var("j"), hl.Var("i")
    a, b = hl.ImageParam(hl.Float(32), 2, "a"), hl.ImageParam(hl.Float(32), 2, "b")
    k = hl.RDom([(0, a.dim(0).extent())], "k")
    total, out = hl.Func("total"), hl.Func("out")
    total[j, i] = hl.f32(0)
    total[j, i] += a[k.x, i] * b[j, k.x]
    out[j, i] = total[j, i]

    def schedule():
        """Tiles one below the other, so that the columns of b that they share stay in the cache."""
        io, ii, jo, ji, lanes, rows = hl.Var("io"), hl.Var("ii"), hl.Var("jo"), hl.Var("ji"), 16, 8
        out.tile(j, i, jo, io, ji, ii, 2 * lanes, rows).reorder(ji, ii, io, jo)
        out.vectorize(ji, lanes).unroll(ji).unroll(ii)
        total.compute_at(out, io).vectorize(j, lanes).unroll(j).unroll(i)
        total.update().reorder(j, i, k.x).vectorize(j, lanes).unroll(j).unroll(i)

    return (a, b), out, schedule
