"""The photograph, and the pictures that are made of it."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.lang.errors import TilewrightError


class MissingPartError(TilewrightError):
    """A package that only the demonstration needs is not installed."""

    default_code = "demo.missing"


def photograph() -> np.ndarray:
    """Rear Admiral Grace Hopper, from Matplotlib's sample data: u8[3, H, W], channel by channel.

    Raises MissingPartError where Matplotlib or Pillow is not installed.
    """
    found = importlib.util.find_spec("matplotlib")  # Matplotlib itself need not be imported
    folders = found.submodule_search_locations if found else None
    paths = [Path(f, "mpl-data", "sample_data", "grace_hopper.jpg") for f in folders or []]
    path = next((p for p in paths if p.is_file()), None)
    if path is None:
        raise _missing("Matplotlib (its wheel carries the photograph)")
    with _pillow().open(path) as picture:
        return np.ascontiguousarray(np.moveaxis(np.asarray(picture.convert("RGB")), -1, 0))


def write_pictures(photo: np.ndarray, blurred: np.ndarray, sharp: np.ndarray, folder: Path) -> list[Path]:
    """PNG files of the results, and one picture that shows all three with an enlarged detail."""
    images = {"original": photo, "blurred": _bytes(blurred), "sharpened": _bytes(sharp)}
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in ("blurred", "sharpened"):
        written.append(folder / f"{name}.png")
        _pillow().fromarray(np.moveaxis(images[name], 0, -1)).save(written[-1])
    written.append(folder / "comparison.png")
    _side_by_side(images).save(written[-1])
    return written


def _side_by_side(images: Mapping[str, np.ndarray]) -> Any:
    """Each picture with its name, and below it the face in twice the size."""
    from PIL import ImageDraw, ImageFont

    image = _pillow()
    height, width = next(iter(images.values())).shape[1:]
    left, top, size = width * 5 // 16, height // 10, width // 2  # where the face is
    gap, head = 8, 28
    sheet = image.new("RGB", (len(images) * (width + gap) - gap, head + height + gap + 2 * size), "white")
    for k, (name, pixels) in enumerate(images.items()):
        picture = image.fromarray(np.moveaxis(pixels, 0, -1))
        x = k * (width + gap)
        ImageDraw.Draw(sheet).text((x + 4, 4), name, fill="black", font=ImageFont.load_default(18))
        sheet.paste(picture, (x, head))
        detail = picture.crop((left, top, left + size, top + size)).resize(
            (2 * size, 2 * size), image.Resampling.NEAREST
        )
        sheet.paste(detail, (x, head + height + gap))
    return sheet


def _bytes(values: np.ndarray) -> np.ndarray:
    return np.rint(values).astype(np.uint8)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise _missing("Pillow") from None
    return Image


def _missing(what: str) -> MissingPartError:
    return MissingPartError(f"the demonstration needs {what}", hint="python -m pip install 'tilewright[plot]'")
