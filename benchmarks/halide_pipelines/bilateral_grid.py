"""The bilateral grid of a grey picture in f32."""

import halide as hl

CELL, LEVELS = 8, 8
WEIGHTS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)


def between(a, b, t):
    return tuple(a[k] + t * (b[k] - a[k]) for k in (0, 1))


def pipeline():
    x, y, z = hl.Var("x"), hl.Var("y"), hl.Var("z")
    picture = hl.ImageParam(hl.Float(32), 2, "picture")
    r = hl.RDom([(0, CELL), (0, CELL)], "r")
    grid, blur_z, blur_y, blur_x = (hl.Func(n) for n in ("grid", "blur_z", "blur_y", "blur_x"))
    row, out = hl.Func("row"), hl.Func("out")
    inside = hl.BoundaryConditions.repeat_edge(picture)
    value = inside[CELL * x + r.x - CELL // 2, CELL * y + r.y - CELL // 2]
    level = hl.clamp(hl.cast(hl.Int(32), value * LEVELS + hl.f32(0.5)), 0, LEVELS)
    grid[x, y, z] = (hl.f32(0), hl.f32(0))
    before = grid[x, y, level]
    grid[x, y, level] = (before[0] + value, before[1] + 1)

    def blurred(cells):
        return tuple(sum((hl.f32(w) * c[k] for w, c in zip(WEIGHTS, cells, strict=True)), hl.f32(0)) for k in (0, 1))

    blur_z[x, y, z] = blurred([grid[x, y, z + d] for d in range(-2, 3)])
    blur_y[x, y, z] = blurred([blur_z[x, y + d, z] for d in range(-2, 3)])
    blur_x[x, y, z] = blurred([blur_y[x + d, y, z] for d in range(-2, 3)])
    share = lambda v: hl.cast(hl.Float(32), v % CELL) / CELL  # noqa: E731
    row[x, y, z] = between(blur_x[x, y / CELL, z], blur_x[x, y / CELL + 1, z], share(y))
    pixel = lambda z: between(row[x / CELL, y, z], row[x / CELL + 1, y, z], share(x))  # noqa: E731
    place = picture[x, y] * LEVELS
    below = hl.clamp(hl.cast(hl.Int(32), place), 0, LEVELS - 1)
    total, number = between(pixel(below), pixel(below + 1), place - hl.cast(hl.Float(32), below))
    out[x, y] = total / number

    def schedule():
        """The levels of a cell lie side by side; a line of the picture has its own line of cells. Cells take turns
        in the scatter."""
        cell = hl.Var("cell")
        out.compute_root().parallel(y).vectorize(x, 8)
        row.compute_at(out, y).reorder_storage(z, x, y).reorder(z, x, y).vectorize(z, 8)
        for f in (blur_z, blur_y, blur_x):
            f.compute_root().reorder_storage(z, x, y).reorder(z, x, y).vectorize(z, 8).parallel(y)
        grid.compute_root().reorder_storage(z, x, y).reorder(z, x, y).vectorize(z, 8).parallel(y)
        grid.update().split(x, x, cell, 8).reorder(cell, r.x, r.y, x, y).unroll(cell).parallel(y)

    return (picture,), out, schedule
