"""The local Laplacian filter of a grey picture in f32, eight tones."""

import halide as hl

LEVELS, TONES = 8, 8
SPREAD = -0.5 * (TONES - 1) ** 2


def pipeline():
    x, y, t = hl.Var("x"), hl.Var("y"), hl.Var("t")
    picture = hl.ImageParam(hl.Float(32), 2, "picture")
    detail, contrast = (hl.Param(hl.Float(32), n, 1.0) for n in ("detail", "contrast"))
    sizes = [(picture.width(), picture.height())]
    while len(sizes) < LEVELS:
        sizes.append(tuple((n + 1) / 2 for n in sizes[-1]))
    parts = {}  # by level: what leads to it from the one below, and to it from the one above

    def smaller(name, f, level, more):
        rows, out = hl.Func(f"{name}_rows{level}"), hl.Func(f"{name}{level}")
        at = hl.BoundaryConditions.repeat_edge(f, [(0, n) for n in sizes[level - 1]])
        a, b, c, d = (at[x, 2 * y + k, *more] for k in (-1, 0, 1, 2))
        rows[x, y, *more] = ((a + d) + 3 * (b + c)) * hl.f32(0.125)
        a, b, c, d = (rows[2 * x + k, y, *more] for k in (-1, 0, 1, 2))
        out[x, y, *more] = ((a + d) + 3 * (b + c)) * hl.f32(0.125)
        parts[f"{name}_rows", level] = rows
        return out

    def larger(name, f, level, more):
        rows, out = hl.Func(f"{name}_rows{level}"), hl.Func(f"{name}{level}")
        at = hl.BoundaryConditions.repeat_edge(f, [(0, n) for n in sizes[level + 1]])
        next_to = lambda i: i / 2 - 1 + 2 * (i % 2)  # noqa: E731
        rows[x, y, *more] = hl.f32(0.75) * at[x, y / 2, *more] + hl.f32(0.25) * at[x, next_to(y), *more]
        out[x, y, *more] = hl.f32(0.75) * rows[x / 2, y, *more] + hl.f32(0.25) * rows[next_to(x), y, *more]
        parts[f"{name}_rows", level] = rows
        return out

    grey, tones = [hl.Func("grey0")], [hl.Func("tones0")]
    grey[0][x, y] = picture[x, y]
    tone = hl.cast(hl.Float(32), t) * hl.f32(1 / (TONES - 1))
    away = picture[x, y] - tone
    tones[0][x, y, t] = tone + away * (contrast + detail * hl.exp(hl.f32(SPREAD) * (away * away)))
    for level in range(1, LEVELS):
        grey.append(smaller("grey", grey[-1], level, ()))
        tones.append(smaller("tones", tones[-1], level, (t,)))

    results = [None] * LEVELS
    for level in reversed(range(LEVELS)):
        k = hl.RDom([(0, TONES)], f"k{level}")
        last = level == LEVELS - 1
        details = tones[level]
        if not last:
            details = hl.Func(f"details{level}")
            details[x, y, t] = tones[level][x, y, t] - larger("tones_up", tones[level + 1], level, (t,))[x, y, t]
        near = hl.max(1 - hl.abs(grey[level][x, y] * (TONES - 1) - hl.cast(hl.Float(32), k.x)), hl.f32(0))
        chosen, out = hl.Func(f"chosen{level}"), hl.Func(f"result{level}")
        chosen[x, y] = hl.f32(0)
        chosen[x, y] += near * details[x, y, k.x]
        parts["chosen", level] = chosen, k
        out[x, y] = chosen[x, y] if last else chosen[x, y] + larger("result_up", results[level + 1], level, ())[x, y]
        results[level] = out

    def schedule():
        """Levels stand in memory, what leads from one to the next is there for a line at a time; a vector of the result
        stays in its register while it goes through the tones."""
        lanes = 16
        for level in range(LEVELS):
            if level:
                for name, f in (("grey", grey[level]), ("tones", tones[level])):
                    f.compute_root().parallel(y).vectorize(x, lanes)
                    parts[f"{name}_rows", level].compute_at(f, y).vectorize(x, lanes)
            result = results[level]
            result.compute_root().parallel(y).vectorize(x, lanes)
            chosen, k = parts["chosen", level]
            chosen.compute_at(result, x).vectorize(x, lanes)
            chosen.update().reorder(x, k.x).vectorize(x, lanes).unroll(k.x)
            if level < LEVELS - 1:
                for name in ("tones_up_rows", "result_up_rows"):
                    parts[name, level].compute_at(result, y).vectorize(x, lanes)

    return (picture, detail, contrast), results[0], schedule
