"""What tuning refuses."""

from __future__ import annotations

from tilewright.lang.errors import TilewrightError


class TuneError(TilewrightError):
    """What can't be tuned, or not so: wrong sizes or options, an extra that is missing, no worker to measure in."""

    default_code = "tune"


class RecordError(TilewrightError):
    """A record, a database or a file of schedules that can't be used."""

    default_code = "records"


class RecordsWarning(UserWarning):
    """The database of records was damaged or can't be written; what happened to the records is said."""


__all__ = ["RecordError", "RecordsWarning", "TuneError"]
