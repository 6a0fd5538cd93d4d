"""A 3x3 box blur of 8 bits."""

import halide as hl


def pipeline():
    x, y = hl.Var("x"), hl.Var("y")
    picture = hl.ImageParam(hl.UInt(8), 2, "picture")
    inside = hl.BoundaryConditions.repeat_edge(picture)
    across, blurred = hl.Func("across"), hl.Func("blurred")
    wide = lambda x, y: hl.cast(hl.UInt(16), inside[x, y])  # noqa: E731
    across[x, y] = wide(x - 1, y) + wide(x, y) + wide(x + 1, y)
    blurred[x, y] = hl.cast(hl.UInt(8), (across[x, y - 1] + across[x, y] + across[x, y + 1]) / hl.cast(hl.UInt(16), 9))

    def schedule():
        """Strips of 48 rows; eight sums across serve six pixels of a column, a vector of columns at a time."""
        yi, down, lane, lanes = hl.Var("yi"), hl.Var("down"), hl.Var("lane"), 32
        blurred.split(y, y, yi, 48).split(yi, yi, down, 6).split(x, x, lane, lanes).reorder(lane, down, x, yi, y)
        blurred.parallel(y).unroll(down).vectorize(lane)
        across.compute_at(blurred, x).vectorize(x, lanes).unroll(y)

    return (picture,), blurred, schedule
