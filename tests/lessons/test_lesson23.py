"""Lesson 23: saved and loaded. An algorithm and its schedules as a file that people and programs can read."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import cbook
from PIL import Image

import tilewright as tw

H, W = tw.sizes("H W")


@tw.kernel
def softened(picture: tw.u8[H, W], passes: tw.f32):
    y, x = tw.vars("y x")
    edge = tw.repeat_edge(picture)
    across, down, out = tw.func("across"), tw.func("down"), tw.func("out")
    across[y, x] = tw.cast(tw.f32, edge[y, x - 1]) + 2 * tw.cast(tw.f32, edge[y, x]) + tw.cast(tw.f32, edge[y, x + 1])
    down[y, x] = (across[y - 1, x] + 2 * across[y, x] + across[y + 1, x]) / 16
    out[y, x] = tw.cast(tw.u8, tw.round(down[y, x] * passes))
    return out[:H, :W]


def scheduled():
    s = softened.schedule()
    strip = s.knob("strip", 16, choices=(8, 16, 32))
    s["out"].split("y", "yo", "yi", strip).parallel("yo").vectorize("x", 8)
    s["across"].store_at("out.yo").compute_at("out.yi").vectorize("x", 8)
    return s


def test_a_file_of_an_algorithm_and_its_schedule(tmp_path, golden):
    path = tmp_path / "softened.tw"
    tw.write(path, softened, scheduled())
    golden(path.read_text())
    file = tw.read(path)
    kernel = file.kernels["softened"]
    s = file.schedule(kernel)
    assert str(kernel) == str(softened) and s == scheduled()
    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as f:
        picture = np.asarray(f.convert("L"))[:133, :150]
    expected = softened.compile(scheduled(), mode="strict")(picture, 0.75)
    np.testing.assert_array_equal(kernel.compile(s, mode="strict")(picture, 0.75), expected)
    np.testing.assert_array_equal(softened.reference(picture, 0.75), expected)
    smaller = s.with_knobs(strip=8)  # what was left open still is
    np.testing.assert_array_equal(kernel.compile(smaller, mode="strict")(picture, 0.75), expected)


def test_a_schedule_alone(tmp_path):
    """It goes with the algorithm that it was made for, and with no other version of that."""
    path = tmp_path / "fast.tw"
    tw.write(path, scheduled())
    assert tw.read(path).schedule(softened) == scheduled()
    other = tw.parse_kernel(str(softened).replace("2.0 *", "3.0 *"))
    assert str(other) != str(softened)
    with pytest.raises(tw.ScheduleError, match="another version") as refused:
        tw.read(path).schedule(other)
    assert refused.value.code == "schedule.algorithm" and str(path) in str(refused.value)


def test_several_in_one_file(tmp_path):
    @tw.kernel
    def doubled(a: tw.f32[H], *, times=2):
        i = tw.vars("i")
        f = tw.func("f")
        f[i] = a[i] * times
        return f[:H]

    path = tmp_path / "both.tw"
    tw.write(path, softened, doubled.pipeline(times=3), scheduled())
    file = tw.read(path)
    assert list(file.kernels) == ["softened", "doubled"]
    a = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(file.kernels["doubled"](a), 3 * a)
    assert file.schedule(file.kernels["softened"]) == scheduled()
