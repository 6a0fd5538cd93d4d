"""A residual connection and the layer normalisation after it, in f32."""

import halide as hl


def pipeline():
    j, i = hl.Var("j"), hl.Var("i")
    x, residual = hl.ImageParam(hl.Float(32), 2, "x"), hl.ImageParam(hl.Float(32), 2, "residual")
    gamma, beta = hl.ImageParam(hl.Float(32), 1, "gamma"), hl.ImageParam(hl.Float(32), 1, "beta")
    epsilon = hl.Param(hl.Float(32), "epsilon", 0.0)
    k = hl.RDom([(0, x.dim(0).extent())], "k")
    n = hl.cast(hl.Float(32), x.dim(0).extent())
    h, total, squares, scale, both = (hl.Func(f) for f in ("h", "total", "squares", "scale", "both"))
    h[j, i] = x[j, i] + residual[j, i]
    total[i] = hl.f32(0)
    total[i] += h[k.x, i]
    mean = total[i] / n
    squares[i] = hl.f32(0)
    squares[i] += (h[k.x, i] - mean) * (h[k.x, i] - mean)
    scale[i] = hl.f32(1) / hl.sqrt(squares[i] / n + epsilon)
    both[j, i] = (h[j, i], (h[j, i] - mean) * scale[i] * gamma[j] + beta[j])

    def schedule():
        """All passes over a row while it is in the cache; sums in lanes that combine at the end of a row."""
        lane, lanes = hl.Var("lane"), 16
        both.parallel(i).vectorize(j, lanes)
        scale.compute_at(both, i)
        for f in (squares, total):
            chunk, within = hl.RVar("chunk"), hl.RVar("within")
            partial = f.update().split(k.x, chunk, within, 2 * lanes).rfactor([(within, lane)])
            f.compute_at(both, i)
            partial.compute_at(both, i).vectorize(lane, lanes).update().vectorize(lane, lanes)

    return (x, residual, gamma, beta, epsilon), both, schedule
