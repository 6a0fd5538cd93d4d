"""Local Laplacian filter: more detail in a photograph without halos (Paris, Hasinoff and Kautz, 2011).

The picture is remapped around each of eight tones, which strengthens what differs little from the tone. At every place
and scale the result takes the detail from the two remapped pictures whose tones are nearest to the local brightness:
pyramids of all eight, of the picture, and of the result.
"""

from __future__ import annotations

import numpy as np
from matplotlib import cbook
from PIL import Image

import tilewright as tw
from tilewright import testing

H, W = tw.sizes("H W")
VECTOR = tw.host_registers().width // 4
LEVELS, TONES = 4, 8  # of levels a call may ask for others: as many as the picture can be halved
SPREAD = -0.5 * (TONES - 1) ** 2  # of a bump as wide as the distance of two tones


@tw.kernel
def local_laplacian(picture: tw.f32[H, W], detail: tw.f32, contrast: tw.f32, *, levels=LEVELS):
    t, y, x = tw.vars("t y x")
    sizes = [(H, W)]
    while len(sizes) < levels:
        sizes.append(tuple((n + 1) // 2 for n in sizes[-1]))

    def smaller(name, f, level):
        """A level from the one below: [1 3 3 1] / 8 down and across; beyond the edge the last pixel goes on."""
        more, around = ([t], [None]) if f.rank == 3 else ([], [])
        rows, out = tw.func(f"{name}_rows{level}"), tw.func(f"{name}{level}")
        at = tw.repeat_edge(f, *around, *((0, n) for n in sizes[level - 1]))
        a, b, c, d = (at[*more, 2 * y + k, x] for k in (-1, 0, 1, 2))
        rows[*more, y, x] = ((a + d) + 3.0 * (b + c)) * 0.125
        a, b, c, d = (rows[*more, y, 2 * x + k] for k in (-1, 0, 1, 2))
        out[*more, y, x] = ((a + d) + 3.0 * (b + c)) * 0.125
        return out

    def larger(name, f, level):
        """The level above in the size of this one: 3/4 of the nearest value and 1/4 of the next, down and across."""
        more, around = ([t], [None]) if f.rank == 3 else ([], [])
        rows, out = tw.func(f"{name}_rows{level}"), tw.func(f"{name}{level}")
        at = tw.repeat_edge(f, *around, *((0, n) for n in sizes[level + 1]))
        next_to = lambda i: i // 2 - 1 + 2 * (i % 2)  # noqa: E731
        rows[*more, y, x] = 0.75 * at[*more, y // 2, x] + 0.25 * at[*more, next_to(y), x]
        out[*more, y, x] = 0.75 * rows[*more, y, x // 2] + 0.25 * rows[*more, y, next_to(x)]
        return out

    grey, tones = [tw.func("grey0")], [tw.func("tones0")]
    grey[0][y, x] = picture[y, x]
    tone = tw.cast(tw.f32, t) * (1.0 / (TONES - 1))
    away = picture[y, x] - tone
    tones[0][t, y, x] = tone + away * (contrast + detail * tw.exp(SPREAD * (away * away)))
    for level in range(1, levels):
        grey.append(smaller("grey", grey[-1], level))
        tones.append(smaller("tones", tones[-1], level))

    result = None
    for level in reversed(range(levels)):
        k = tw.rdom(k=TONES)
        details = tones[level] if result is None else tw.func(f"details{level}")
        if result is not None:
            details[t, y, x] = tones[level][t, y, x] - larger("tones_up", tones[level + 1], level)[t, y, x]
        near = tw.maximum(1.0 - tw.abs(grey[level][y, x] * (TONES - 1) - tw.cast(tw.f32, k)), 0.0)
        chosen, out = tw.func(f"chosen{level}"), tw.func(f"result{level}")
        chosen[y, x] = 0.0
        chosen[y, x] += near * details[k, y, x]
        out[y, x] = chosen[y, x] if result is None else chosen[y, x] + larger("result_up", result, level)[y, x]
        result = out
    return result[:H, :W]


def by_stages(levels=LEVELS):
    """Every level of every pyramid, and everything that is made of it, over the whole picture."""
    s = local_laplacian.schedule(levels=levels)
    for level in range(levels):
        stages = [f"chosen{level}.init", f"chosen{level}.update", f"result{level}"]
        stages += [f"{name}{level}" for name in ("grey", "tones") if level]
        stages += [f"{name}_up{level}" for name in ("tones", "result") if level < levels - 1]
        for stage in stages:
            if stage != "result0" and not stage.endswith("update"):
                s[stage.removesuffix(".init")].compute_root()
            s[stage].vectorize("x", VECTOR)
    return s


def expert(levels=LEVELS):
    """Levels stand in memory, what leads from one to the next is there for a line at a time. A vector of the result
    stays in its register while it goes through the tones. Threads over tones, and over lines.
    """
    s = local_laplacian.schedule(levels=levels)
    for level in range(levels):
        chosen, result = f"chosen{level}", s[f"result{level}"]
        if level:
            for name, threads in (("grey", "y"), ("tones", "t")):
                s[f"{name}{level}"].compute_root().parallel(threads).vectorize("x", VECTOR)
                s[f"{name}_rows{level}"].compute_at(f"{name}{level}.y").vectorize("x", VECTOR)
            result.compute_root()
        result.parallel("y").vectorize("x", VECTOR)
        s[chosen].compute_at(f"result{level}.y")
        s[f"{chosen}.init"].vectorize("x", VECTOR)
        s[f"{chosen}.update"].split("x", "x", "v", VECTOR).reorder("y", "x", "k", "v").vectorize("v")
        s.cache_write(chosen, at=f"{chosen}.update.x", memory="reg")
        if level < levels - 1:
            for name in ("tones", "result"):
                s[f"{name}_up_rows{level}"].compute_at(f"result{level}.y").vectorize("x", VECTOR)
    return s


SCHEDULES = (by_stages, expert)


def inputs(repeat=1):
    """A portrait of Grace Hopper, 600 x 512 in grey, values 0 to 1; the detail that is added, and the contrast."""
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as photograph:
        grey = np.asarray(photograph.convert("L"), np.float32) / np.float32(255)
    return np.tile(grey, (repeat, repeat)), np.float32(1.0), np.float32(1.0)


def independent(picture, detail, contrast, levels=LEVELS):
    def halved(f, axis):
        f = np.moveaxis(f, axis, 0)
        n = (len(f) + 1) // 2
        a, b, c, d = (f[np.clip(2 * np.arange(n) + k, 0, len(f) - 1)] for k in (-1, 0, 1, 2))
        return np.moveaxis((a + 3 * b + 3 * c + d) / 8, 0, axis)

    def doubled(f, axis, n):
        f, i = np.moveaxis(f, axis, 0), np.arange(n)
        at = lambda k: f[np.clip(k, 0, len(f) - 1)]  # noqa: E731
        return np.moveaxis(0.75 * at(i // 2) + 0.25 * at(np.where(i % 2, i // 2 + 1, i // 2 - 1)), 0, axis)

    def up(f, shape):
        return doubled(doubled(f, -2, shape[-2]), -1, shape[-1])

    grey = [picture.astype(np.float64)]
    tone = np.arange(TONES)[:, None, None] / (TONES - 1)
    away = grey[0] - tone
    tones = [tone + away * (contrast + detail * np.exp(SPREAD * away**2))]
    for pyramid in (grey, tones):
        while len(pyramid) < levels:
            pyramid.append(halved(halved(pyramid[-1], -2), -1))
    result = None
    for level in reversed(range(levels)):
        f = tones[level] if result is None else tones[level] - up(tones[level + 1], tones[level].shape)
        place = grey[level] * (TONES - 1)
        low = np.clip(np.floor(place), 0, TONES - 2).astype(int)
        below, above = (np.take_along_axis(f, low[None] + k, 0)[0] for k in (0, 1))
        chosen = below + (place - low) * (above - below)
        result = chosen if result is None else chosen + up(result, chosen.shape)
    return np.float32(result)


def check(rows=200, columns=170, levels=LEVELS):
    picture, *amounts = inputs()
    args = (np.ascontiguousarray(picture[:rows, :columns]), *amounts)
    testing.check_schedules(local_laplacian, SCHEDULES, args, independent(*args, levels), {"levels": levels})


if __name__ == "__main__":
    check(levels=8)
