"""Harris corners of three planes of 8 bits, in f32."""

import halide as hl


def pipeline():
    x, y = hl.Var("x"), hl.Var("y")
    picture = hl.ImageParam(hl.UInt(8), 3, "picture")
    colour = hl.BoundaryConditions.repeat_edge(picture, [(0, picture.width()), (0, picture.height())])
    grey, across, down, corners = (hl.Func(n) for n in ("grey", "across", "down", "corners"))
    red, green, blue = (hl.cast(hl.Float(32), colour[x, y, c]) for c in range(3))
    grey[x, y] = hl.f32(0.299) * red + hl.f32(0.587) * green + hl.f32(0.114) * blue
    g = lambda dx, dy: grey[x + dx, y + dy]  # noqa: E731
    across[x, y] = (g(1, -1) - g(-1, -1)) + 2 * (g(1, 0) - g(-1, 0)) + (g(1, 1) - g(-1, 1))
    down[x, y] = (g(-1, 1) - g(-1, -1)) + 2 * (g(0, 1) - g(0, -1)) + (g(1, 1) - g(1, -1))

    def summed(name, a, b):
        column, total = hl.Func(name + "_column"), hl.Func(name)
        column[x, y] = sum((a[x, y + d] * b[x, y + d] for d in (-1, 0, 1)), hl.f32(0))
        total[x, y] = sum((column[x + d, y] for d in (-1, 0, 1)), hl.f32(0))
        return total

    xx, xy, yy = summed("xx", across, across), summed("xy", across, down), summed("yy", down, down)
    trace = xx[x, y] + yy[x, y]
    corners[x, y] = (xx[x, y] * yy[x, y] - xy[x, y] * xy[x, y]) - hl.f32(0.04) * (trace * trace)

    def schedule():
        """Strips of 32 rows; windows of brightness and slopes slide down."""
        yi, lanes = hl.Var("yi"), 16
        corners.split(y, y, yi, 32).parallel(y).vectorize(x, lanes)
        for f in (grey, across, down):
            f.store_at(corners, y).compute_at(corners, yi).vectorize(x, lanes)
        across.compute_with(down, x)

    return (picture,), corners, schedule
