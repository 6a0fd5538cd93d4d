"""`.tw` files: what is read, and what can't be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import testing
from tilewright.lang.text import print_kernel
from tilewright.lang.text.blocks import format_tw

KERNEL = """\
kernel double(A: f32[N]) -> B[:N]
  B: f32
  B[x] = A[x] * 2.0
"""
SCHEDULE = """\
schedule double
  B:
    vectorize x by 8
"""


def written(folder: Path, *blocks: str) -> Path:
    path = folder / "file.tw"
    path.write_text(format_tw(blocks))
    return path


def test_a_file_gives_its_kernels_and_schedules(tmp_path: Path) -> None:
    file = tw.read(written(tmp_path, KERNEL, SCHEDULE, KERNEL.replace("double", "twice")))
    assert list(file.kernels) == ["double", "twice"]
    schedule = file.schedule(file.kernels["double"])
    assert str(schedule) + "\n" == SCHEDULE
    x = np.arange(20, dtype=np.float32)
    testing.assert_bitwise(file.kernels["double"].compile(schedule)(x), 2 * x)


def test_what_is_printed_is_read(tmp_path: Path) -> None:
    first = tw.read(written(tmp_path, KERNEL, SCHEDULE))
    kernel = first.kernels["double"]
    second = tw.read(written(tmp_path, print_kernel(kernel.pipeline()), str(first.schedule())))
    assert second.kernels["double"].pipeline().digest == kernel.pipeline().digest
    assert second.schedule() == first.schedule()


@pytest.mark.parametrize(
    ("blocks", "code", "says"),
    [
        ((KERNEL, KERNEL), "parse.name-twice", "file.tw:7"),
        ((KERNEL, SCHEDULE.replace("double", "other")), "schedule.none", "schedules of other"),
        ((KERNEL, SCHEDULE, SCHEDULE), "schedule.several", "2 schedules"),
        ((KERNEL, KERNEL.replace("double", "twice"), SCHEDULE), "parse.kernels", "2 kernels"),
        ((KERNEL, SCHEDULE.replace("by 8", "by")), "parse", "file.tw:9"),
        ((KERNEL, SCHEDULE.replace("x by 8", "q by 8")), "schedule.unknown-loop", "file.tw:9"),
        ((KERNEL.replace("* 2.0", "* Q"), SCHEDULE), "definition.unknown-name", "file.tw:5:17"),
    ],
)  # fmt: skip
def test_errors_name_the_place_in_the_file(tmp_path: Path, blocks: tuple[str, ...], code: str, says: str) -> None:
    path = written(tmp_path, *blocks)
    with pytest.raises(tw.TilewrightError) as e:
        tw.read(path).schedule()
    assert e.value.code.startswith(code) and says in str(e.value), str(e.value)


@pytest.mark.parametrize("text", ["", "tilewright 1\n", "# nothing yet\n"])
def test_a_file_without_kernels(tmp_path: Path, text: str) -> None:
    (tmp_path / "file.tw").write_text(text)
    file = tw.read(tmp_path / "file.tw")
    assert (file.kernels, file.schedules) == ({}, ())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        tw.read(tmp_path / "nothing.tw")


def test_parse_kernel_and_schedule() -> None:
    kernel = tw.parse_kernel(KERNEL)
    assert str(tw.parse_schedule(SCHEDULE, kernel)) + "\n" == SCHEDULE
    with pytest.raises(tw.ScheduleError) as e:
        tw.parse_schedule(SCHEDULE.replace("double", "other"), kernel)
    assert e.value.code == "schedule.algorithm"
