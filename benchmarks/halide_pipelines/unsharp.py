"""Unsharp mask of three planes of f32."""

import halide as hl

WEIGHTS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)


def pipeline():
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    picture, amount = hl.ImageParam(hl.Float(32), 3, "picture"), hl.Param(hl.Float(32), "amount", 0.75)
    colour = hl.BoundaryConditions.repeat_edge(picture, [(0, picture.width()), (0, picture.height())])
    grey, down, blurred, gain, sharp = (hl.Func(n) for n in ("grey", "down", "blurred", "gain", "sharp"))
    weights = [hl.f32(w) for w in WEIGHTS]
    grey[x, y] = hl.f32(0.299) * colour[x, y, 0] + hl.f32(0.587) * colour[x, y, 1] + hl.f32(0.114) * colour[x, y, 2]
    down[x, y] = sum((w * grey[x, y + k - 2] for k, w in enumerate(weights)), hl.f32(0))
    blurred[x, y] = sum((w * down[x + k - 2, y] for k, w in enumerate(weights)), hl.f32(0))
    gain[x, y] = 1 + amount * (1 - blurred[x, y] / hl.max(grey[x, y], hl.f32(1e-3)))
    sharp[x, y, c] = hl.clamp(picture[x, y, c] * gain[x, y], hl.f32(0), hl.f32(1))
    sharp.bound(c, 0, 3)

    def schedule():
        """Strips of rows; windows of brightness slide down, all else is there for a row at a time."""
        yi, lanes = hl.Var("yi"), 16
        sharp.split(y, y, yi, 32).reorder(x, c, yi, y).parallel(y).vectorize(x, lanes).unroll(c)
        gain.compute_at(sharp, yi).vectorize(x, lanes)
        down.compute_at(sharp, yi).vectorize(x, lanes)
        grey.store_at(sharp, y).compute_at(sharp, yi).vectorize(x, lanes)

    return (picture, amount), sharp, schedule
