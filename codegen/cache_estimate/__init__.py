"""An estimate of the misses in a machine's caches without running anything: milliseconds for a schedule of any size."""

from .estimate import cache_estimate

__all__ = ["cache_estimate"]
