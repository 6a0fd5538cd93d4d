"""How often each of 256 values occurs in a picture of 8 bits."""

import halide as hl


def pipeline():
    b = hl.Var("b")
    picture = hl.ImageParam(hl.UInt(8), 2, "picture")
    r = hl.RDom([(0, picture.width()), (0, picture.height())], "r")
    count = hl.Func("count")
    count[b] = 0
    count[hl.cast(hl.Int(32), picture[r.x, r.y])] += 1
    count.bound(b, 0, 256)

    def schedule():
        """Eight histograms in turns, so that equal neighbours don't wait for each other."""
        outer, turn, u = hl.RVar("outer"), hl.RVar("turn"), hl.Var("u")
        count.vectorize(b, 16)
        partial = count.update().split(r.x, outer, turn, 8).rfactor([(turn, u)])
        partial.compute_root().vectorize(b, 16)
        partial.update().reorder(u, outer, r.y).unroll(u)
        count.update()

    return (picture,), count, schedule
