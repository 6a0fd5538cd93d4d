"""Softmax of the rows of a matrix in f32."""

import halide as hl


def pipeline():
    j, i = hl.Var("j"), hl.Var("i")
    x = hl.ImageParam(hl.Float(32), 2, "x")
    k = hl.RDom([(0, x.dim(0).extent())], "k")
    largest, e, total, scale, out = (hl.Func(n) for n in ("largest", "e", "total", "scale", "out"))
    largest[i] = hl.Float(32).min()
    largest[i] = hl.max(largest[i], x[k.x, i])
    e[j, i] = hl.exp(x[j, i] - largest[i])
    total[i] = hl.f32(0)
    total[i] += e[k.x, i]
    scale[i] = hl.f32(1) / total[i]
    out[j, i] = e[j, i] * scale[i]

    def schedule():
        """All stages of a row before the next one; maximum and sum in lanes that combine at the end of a row."""
        lane, lanes = hl.Var("lane"), 16
        out.parallel(i).vectorize(j, lanes)
        scale.compute_at(out, i)
        for f in (total, largest):
            chunk, within = hl.RVar("chunk"), hl.RVar("within")
            partial = f.update().split(k.x, chunk, within, lanes).rfactor([(within, lane)])
            f.compute_at(out, i)
            partial.compute_at(out, i).vectorize(lane, lanes).update().vectorize(lane, lanes)
        e.compute_at(out, i).vectorize(j, lanes)

    return (x,), out, schedule
