"""Filters of a photograph of 6 megapixels against Halide, and OpenCV where it has the filter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import halide_pipelines
from benchmarks.cases import entry
from benchmarks.cases.data import close, example
from benchmarks.harness import Case, Work, peer

ROWS, COLUMNS = 2000, 3000
Run = Callable[[], Any]


def photograph(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an example, its photograph laid out side by side and cut to size."""
    picture, *others = inputs
    return np.ascontiguousarray(picture[..., :ROWS, :COLUMNS]), *others


def filtered(name: str, cv: Callable[..., Run] | None = None, inside: int = 0, **statics: int) -> Case:
    """`expert` of an example beside the same program in Halide. `cv` makes a call of OpenCV, whose values are judged only
    `inside` the picture where it treats the edge in its own way."""
    module = example(name)
    kernel, given = getattr(module, name), module.inputs(6)
    args = photograph(given if isinstance(given, tuple) else (given,))
    fast = kernel.compile(module.expert(**statics))
    ours = fast(*args)
    peers = halide_pipelines.peers(name, args, ours, 1.0)
    exact = module.independent(*args, **statics)
    checks = [close([lambda: fast(*args), *(p.run for p in peers if p.run)], lambda: exact, 1e-5)]
    if cv is not None:
        peers.append(peer("OpenCV", "cv2", lambda: cv(*args)))
        run, part = peers[-1].run, np.s_[..., inside : ROWS - inside, inside : COLUMNS - inside]
        if run is not None:
            checks.append(close([lambda: run()[part]], lambda: exact[part], 1e-2))
    return Case(
        lambda: fast(*args, out=ours), tuple(peers), lambda: [check() for check in checks],
        Work(reads=args[0].nbytes, writes=ours.nbytes),
    )  # fmt: skip


def _cv_blur(picture: np.ndarray) -> Run:
    """Rounds to the nearest value, where ours rounds down."""
    import cv2

    out = np.empty_like(picture)
    return lambda: cv2.blur(picture, (3, 3), out, borderType=cv2.BORDER_REPLICATE)


def _cv_unsharp(picture: np.ndarray, amount: np.float32) -> Run:
    import cv2

    weights = np.float32([1, 4, 6, 4, 1]) / 16
    share = np.float32([[0.299, 0.587, 0.114]])
    colours = np.ascontiguousarray(np.moveaxis(picture, 0, 2))  # as OpenCV has them

    def run() -> np.ndarray:
        grey = cv2.transform(colours, share)
        blurred = cv2.sepFilter2D(grey, -1, weights, weights, borderType=cv2.BORDER_REPLICATE)
        gain = cv2.addWeighted(cv2.divide(blurred, cv2.max(grey, 1e-3)), -amount, grey, 0.0, 1.0 + amount)
        sharp = cv2.multiply(colours, cv2.merge((gain, gain, gain)))
        return np.moveaxis(cv2.max(cv2.min(sharp, (1.0,) * 4), (0.0,) * 4), 2, 0)

    return run


def _cv_harris(picture: np.ndarray) -> Run:
    """Its slopes and windows are scaled: by 1/4 and 1/3, of which the response is the fourth power."""
    import cv2

    colours = np.ascontiguousarray(np.moveaxis(picture, 0, 2))
    share, scale = np.float32([[0.299, 0.587, 0.114]]), 12.0**4

    def run() -> np.ndarray:
        grey = cv2.transform(colours.astype(np.float32), share)
        return cv2.cornerHarris(grey, 3, 3, 0.04, borderType=cv2.BORDER_REPLICATE) * np.float32(scale)

    return run


def _entry(name: str, title: str, *more: Any, **options: Any) -> Any:
    return entry(
        name.replace("_", "-"), f"{title}, {ROWS} x {COLUMNS}", partial(filtered, name, *more, **options), "pictures"
    )


ENTRIES = (
    _entry("blur", "3 x 3 blur of 8 bits", _cv_blur),
    _entry("unsharp", "unsharp mask of three colours in f32", _cv_unsharp),
    _entry("harris", "Harris corners of three colours in 8 bits", _cv_harris, 3),
    _entry("bilateral_grid", "bilateral grid, f32"),
    _entry("local_laplacian", "local Laplacian filter, f32, 8 levels and 8 tones", levels=8),
)
