"""What tuning refuses."""

from __future__ import annotations

from tilewright.lang.errors import TilewrightError


class TuneError(TilewrightError):
    """What can't be tuned, or not so: wrong sizes or options, an extra that is missing, no worker to measure in."""

    default_code = "tune"


__all__ = ["TuneError"]
