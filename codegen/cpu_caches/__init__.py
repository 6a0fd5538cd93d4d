"""The caches of a CPU, driven by a stream of accesses in compiled code."""

from .driving import Drive, Driven, DrivenCaches, bases
from .hierarchy import Hierarchy

__all__ = ["Drive", "Driven", "DrivenCaches", "Hierarchy", "bases"]
