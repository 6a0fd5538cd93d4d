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
        """Strips of 32 rows; a window of sums slides down each of them."""
        yi, lanes = hl.Var("yi"), 64
        blurred.split(y, y, yi, 32).parallel(y).vectorize(x, lanes)
        across.store_at(blurred, y).compute_at(blurred, yi).vectorize(x, lanes)

    return (picture,), blurred, schedule
