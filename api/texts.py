"""Kernels and schedules from their text form."""

from __future__ import annotations

from typing import Any

from tilewright.kernels import Kernel, from_pipeline


def parse_kernel(text: str, origin: str = "<text>") -> Kernel:
    """The kernel that a text describes. Nothing in it is evaluated as Python."""
    from tilewright.lang.text import parse_kernel as parse

    return from_pipeline(parse(text, origin))


def parse_schedule(text: str, kernel: Any, origin: str = "<text>") -> Any:
    """The schedule that a text describes, for `kernel`; every directive is checked as if written by hand."""
    from tilewright.schedule.schedule import parse_schedule as parse

    return parse(text, kernel.pipeline() if isinstance(kernel, Kernel) else kernel, origin)


def read(path: Any) -> Any:
    """The kernels and schedules of a `.tw` file, by name."""
    from tilewright.schedule.files import read_tw

    return read_tw(path)
