"""What a measured time depends on: the processor with its features and caches, and the threads that may be used.

The versions of the libraries and of the code generator, on which it depends too, are told apart: code of another version
is made anew, another processor is not.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_FEATURES, _CACHES, _THREADS = 0.5, 0.35, 0.15  # what a similarity is made of


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A machine: the processor's name, its features by LLVM's names (those that it has, sorted), bytes of its data caches
    from the core outwards, and how many threads a process may use there."""

    cpu: str
    features: tuple[str, ...] = ()
    caches: tuple[int, ...] = ()
    threads: int = 1

    @staticmethod
    def here() -> Fingerprint:
        """This machine's."""
        return _here()

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that tell machines apart."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=8).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """Plain data, from which `from_json` makes it again."""
        return {
            "cpu": self.cpu, "features": list(self.features), "caches": list(self.caches), "threads": self.threads,
        }  # fmt: skip

    def to_json(self) -> str:
        """One line of JSON, the same for equal ones."""
        return json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(data: str | Mapping[str, Any]) -> Fingerprint:
        """From what `as_json` or `to_json` gave. Raises ValueError for what is none."""
        try:
            given = json.loads(data) if isinstance(data, str) else data
            cpu, threads = given["cpu"], given["threads"]
            features, caches = tuple(given["features"]), tuple(given["caches"])
        except (KeyError, TypeError, RecursionError) as e:
            raise ValueError(f"this is no fingerprint: {data!r:.200}") from e
        numbers = (threads, *caches)
        if not isinstance(cpu, str) or not all(isinstance(f, str) for f in features):
            raise ValueError(f"this is no fingerprint: {data!r}")
        if not all(type(n) is int and n > 0 for n in numbers):
            raise ValueError(f"this is no fingerprint: {data!r}")
        return Fingerprint(cpu, features, caches, threads)

    def __str__(self) -> str:
        """`AMD EPYC, 2 threads, caches 32K 1M 32M (a1b2c3d4)`"""
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        caches = f", caches {' '.join(map(_bytes, self.caches))}" if self.caches else ""
        return f"{self.cpu}, {threads}{caches} ({self.hash[:8]})"


def similar(a: Fingerprint, b: Fingerprint) -> float:
    """From 0 to 1, how much what is fast on one machine can be expected to be fast on the other; 1 for equal ones.

    Half of it is the share of features that both have, a third the sizes of caches (by ratio, level by level), the rest
    the numbers of threads. Another name of the processor alone makes it a little less.
    """
    if a == b:
        return 1.0
    either, both = set(a.features) | set(b.features), set(a.features) & set(b.features)
    features = len(both) / len(either) if either else 1.0
    levels = max(len(a.caches), len(b.caches))
    caches = sum(map(_near, a.caches, b.caches)) / levels if levels else 1.0
    score = _FEATURES * features + _CACHES * caches + _THREADS * _near(a.threads, b.threads)
    return score * (1.0 if a.cpu == b.cpu else 0.95) * 0.999


def _near(a: int, b: int) -> float:
    """1 for equal numbers, 1/2 at a factor of two, 1/3 at four."""
    return 1 / (1 + abs(math.log2(a / b)))


@functools.cache
def _here() -> Fingerprint:
    from tilewright.codegen.data_caches import data_caches, processor_name
    from tilewright.codegen.runtime.processors import available, default_threads
    from tilewright.schedule.processor import host_features

    features = tuple(sorted(name for name, there in host_features().items() if there))
    caches = tuple(c.size for c in data_caches(min(available())))
    return Fingerprint(processor_name(), features, caches, default_threads())


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    from importlib.metadata import version

    from tilewright.codegen.cache import sources_hash
    from tilewright.codegen.target import versions as compilers

    return ("code", sources_hash()[:16]), ("llvm", compilers()), ("numpy", version("numpy"))


def versions() -> dict[str, str]:
    """What else a time depends on: `code` (a hash of the code generator's sources), `llvm` and `numpy`."""
    return dict(_versions())


def _bytes(n: int) -> str:
    for unit, size in (("M", 1 << 20), ("K", 1 << 10)):
        if n >= size and n % size == 0:
            return f"{n // size}{unit}"
    return str(n)


__all__ = ["Fingerprint", "similar", "versions"]
