"""What is remembered: a record is one measurement of one schedule, under a key that says what its figure depends on.

Records are plain data with one form as JSON. A schedule is its text; it counts for nothing until it has been replayed.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tilewright.autotune.buckets import Bucket
from tilewright.autotune.errors import RecordError
from tilewright.autotune.fingerprint import Fingerprint
from tilewright.autotune.space import Value
from tilewright.codegen import cache as code_cache
from tilewright.lang.pipeline import Pipeline, ScalarParam, array_of
from tilewright.lang.types import DTYPES

if TYPE_CHECKING:
    from tilewright.hw import Machine

OBJECTIVES = {"time": "s", "cycles": "cycles", "bytes": "bytes", "energy": "pJ"}  # and their units
STATUSES = ("ok", "illegal", "compile", "wrong", "crash", "timeout", "memory", "instant", "stopped")
CACHES = ("hot", "cold")
STAGES = ("search", "final", "chosen")  # the later, the more a figure can be trusted
_TYPES = re.compile(rf"\b(?:{'|'.join(DTYPES)})\b")


@dataclass(frozen=True, slots=True)
class Key:
    """What a figure depends on besides the schedule.

    algorithm: hash of the algorithm (`Pipeline.digest`; static values are in it). family: the same with all element
    types taken out, so that neighbours in type are found. types, layouts: of parameters and results, layouts only where
    the caller gives something in another one than its own. bucket: ranges of sizes, "M=17..24,N=1024". machine, threads,
    fingerprint: of a computer its processor's name, the threads used, and all of its fingerprint (as JSON); of a
    simulated machine its name, 0, and a hash of all that it is. code: hash of the sources of the code generator (of
    simulated machines too where the figure comes from one). versions: of libraries.
    """

    kernel: str
    algorithm: str
    family: str
    mode: str
    types: str
    layouts: str
    bucket: str
    objective: str
    machine: str
    threads: int
    fingerprint: str
    code: str
    versions: str

    @property
    def digest(self) -> str:
        return _digest(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, eq=True, slots=True)
class Record:
    """One measurement. `figure` is what counts, in `unit`; None unless `status` is "ok".

    sizes: the exact ones at which it was taken. values: what the search chose, by name. samples, median, spread: of
    times (spread: median absolute deviation over the median). cache: were the data in the caches ("hot") or not. when:
    ISO 8601 in UTC. stage: "search", "final" (of finalists side by side), "chosen" (the one that won). origin: where the
    schedule comes from, in a word (default, plan, search, ...). message: why there is no figure.
    """

    key: Key
    sizes: Mapping[str, int]
    schedule: str
    status: str = "ok"
    figure: float | None = None
    unit: str = "s"
    samples: tuple[float, ...] = ()
    median: float | None = None
    spread: float | None = None
    cache: str = "hot"
    when: str = field(default_factory=lambda: now())
    stage: str = "search"
    origin: str = "search"
    message: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)
        put("sizes", {str(k): int(v) for k, v in self.sizes.items()})
        put("values", {str(k): _value(v) for k, v in self.values.items()})
        put("samples", tuple(float(s) for s in self.samples))
        for name in ("figure", "median", "spread"):
            number = getattr(self, name)
            put(name, None if number is None else float(number))
        put("schedule", self.schedule.rstrip("\n"))
        put("message", self.message.encode("utf-8", "replace").decode("utf-8"))  # of other programs: any bytes
        _check(self)

    @property
    def digest(self) -> str:
        """A hash of all that is said: equal ones are one record, wherever they come from."""
        return _digest(self.as_json())

    @property
    def configuration(self) -> str:
        """A hash of the schedule's text."""
        return _digest(self.schedule)

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    def as_json(self) -> dict[str, Any]:
        """Plain data; `record_of` gives it back."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data["key"] = self.key.as_json()
        data["samples"] = [*self.samples]
        data["values"] = {k: [*v] if isinstance(v, tuple) else v for k, v in self.values.items()}
        return data | {"sizes": dict(self.sizes)}

    def line(self) -> str:
        """The record as a line of JSON, the same for equal records."""
        return json.dumps(self.as_json(), sort_keys=True, ensure_ascii=False, allow_nan=False)


def record_of(data: Any) -> Record:
    """The record of plain data. Raises RecordError `records.line` that says which field is missing, unknown or wrong."""
    if not isinstance(data, dict) or not isinstance(data.get("key"), dict):
        raise _wrong("it is no object with a key")
    given = dict(data)
    key = key_from(given.pop("key"))
    known = _fields_of(Record, given | {"key": key})
    try:
        return Record(**known)
    except (TypeError, ValueError, AttributeError, OverflowError) as e:
        raise _wrong(str(e)) from None


def key_from(data: Mapping[str, Any]) -> Key:
    """The key of plain data. Raises RecordError `records.line`."""
    return Key(**_fields_of(Key, data, "key."))


def _fields_of(kind: type, data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    wanted = {f.name: f.type for f in fields(kind)}
    unknown = [n for n in data if n not in wanted]
    missing = [n for n in wanted if n not in data]
    if unknown or missing:
        raise _wrong(f"{prefix}{(missing or unknown)[0]} is {'missing' if missing else 'unknown'}")
    for name, value in data.items():
        types = {"str": (str,), "int": (int,)}.get(str(wanted[name]))
        if types and (not isinstance(value, types) or isinstance(value, bool)):
            raise _wrong(f"{prefix}{name} is {value!r}")
    return dict(data)


def _check(r: Record) -> None:
    among = {"status": STATUSES, "cache": CACHES, "stage": STAGES}
    for name, known in among.items():
        if getattr(r, name) not in known:
            raise _wrong(f"{name} is {getattr(r, name)!r}", "one of " + ", ".join(known))
    if not 0 <= r.key.threads < 1 << 31:
        raise _wrong(f"threads are {r.key.threads}")
    numbers = (*r.samples, *(x for x in (r.figure, r.median, r.spread) if x is not None))
    if not all(math.isfinite(x) and x >= 0 for x in numbers):
        raise _wrong("a figure is negative or no number")
    try:
        "".join(_texts(r)).encode()
    except UnicodeEncodeError:
        raise _wrong("a text has half a character (a lone surrogate)") from None
    if (r.figure is not None) != r.ok:
        raise _wrong(f"the status is {r.status} and the figure {r.figure}", 'a figure belongs to the status "ok"')


def _texts(r: Record) -> Iterator[str]:
    """All that a record says in words."""
    k = r.key
    yield from (k.kernel, k.algorithm, k.family, k.mode, k.types, k.layouts, k.bucket, k.objective, k.machine)
    yield from (k.fingerprint, k.code, k.versions, r.schedule, r.unit, r.when, r.origin, r.message)
    yield from r.sizes
    for name, value in r.values.items():
        yield name
        yield from (str(v) for v in (value if isinstance(value, tuple) else (value,)))


def _wrong(why: str, hint: str | None = None) -> RecordError:
    return RecordError(f"this is no record: {why}", code="records.line", hint=hint)


def _value(v: Any) -> Value:
    if isinstance(v, (list, tuple)) and all(isinstance(x, (int, str)) for x in v):
        return tuple(v)
    if isinstance(v, (bool, int, str)):
        return v
    raise _wrong(f"the choice {v!r} is no number, name or row of them")


def _digest(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def now() -> str:
    """The time, as records say it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# Keys -----------------------------------------------------------------------------------------------------------


def key_of(
    pipeline: Pipeline,
    *,
    mode: str = "contract",
    bucket: str = "",
    objective: str = "time",
    machine: Machine | None = None,
    fingerprint: Fingerprint | None = None,
    layouts: Mapping[str, str] | None = None,
) -> Key:
    """The key of measurements of a pipeline by this program.

    machine: the simulated one, for other objectives than "time". fingerprint: of the computer that measures, or by
    default this one. layouts: in which one the caller gives a tensor, by name. Raises RecordError `records.objective`,
    TuneError `tune.bucket`.
    """
    if objective not in OBJECTIVES or (objective == "time") == (machine is not None):
        what = f"the objective {objective!r}" if objective not in OBJECTIVES else f"{objective} of this machine"
        hint = f"time of this computer, or {', '.join([*OBJECTIVES][1:])} of a simulated machine"
        raise RecordError(f"there are no records of {what}", code="records.objective", hint=hint)
    where = _simulated(machine) if machine is not None else _native(fingerprint or Fingerprint.here())
    return Key(
        kernel=pipeline.name, algorithm=pipeline.digest, family=family(pipeline), mode=mode, types=types_of(pipeline),
        bucket=_canonical(bucket, pipeline), objective=objective,
        layouts=", ".join(f"{n}: {m}" for n, m in sorted((layouts or {}).items())),
        **where, code=code_of(objective), versions="" if machine is not None else versions(),
    )  # fmt: skip


def _canonical(bucket: str, p: Pipeline) -> str:
    """A bucket's text with its sizes in the order of the pipeline's."""
    places = {n: k for k, n in enumerate(p.sizes)}
    axes = sorted(Bucket.read(bucket).ranges, key=lambda r: places.get(r.name, len(places)))
    return ",".join(map(str, axes))


def _native(f: Fingerprint) -> dict[str, Any]:
    return {"machine": f.cpu, "threads": f.threads, "fingerprint": f.to_json()}


def _simulated(machine: Machine) -> dict[str, Any]:
    return {"machine": machine.name, "threads": 0, "fingerprint": _digest(repr(machine))}


def code_of(objective: str) -> str:
    """The hash of the sources that figures of an objective come from."""
    return code_cache.sources_hash(*(() if objective == "time" else ("lang", "schedule", "codegen", "hw")))


@functools.cache
def versions() -> str:
    """The libraries that machine code depends on, without importing them."""
    from importlib.metadata import version

    return " ".join(f"{name} {version(name)}" for name in ("llvmlite", "numba"))


def types_of(p: Pipeline) -> str:
    """`f32 f32 -> f32`: of parameters and results."""
    given = (a.dtype.name if isinstance(a, ScalarParam) else array_of(a).dtype.name for a in p.params)
    return " ".join([*given, "->", *(o.dtype.name for o in p.outputs)])


_families: dict[str, str] = {}


def family(p: Pipeline) -> str:
    """A hash of the algorithm without its element types: equal for kernels that differ in these alone."""
    known = _families.get(p.digest)
    if known is None:
        from tilewright.lang.text import print_kernel

        known = _families[p.digest] = _digest(_TYPES.sub("T", print_kernel(p)))
    return known


def layouts_of(schedule: Any) -> str:
    """The layouts in which a schedule expects its caller's tensors, as keys say them."""
    given = {
        d.operands[0]: str(d.option("layout")) for d in schedule.directives if d.kind == "layout" and d.option("given")
    }
    return ", ".join(f"{n}: {m}" for n, m in sorted(given.items()))


__all__ = [
    "CACHES", "OBJECTIVES", "STAGES", "STATUSES", "Key", "Record", "code_of", "family", "key_from", "key_of",
    "layouts_of", "now", "record_of", "types_of", "versions",
]  # fmt: skip
