"""The caches of a CPU, driven by a stream of accesses in compiled code."""

from .hierarchy import Hierarchy

__all__ = ["Hierarchy"]
