"""The persistent cache of object code (and of plans, see planner/store.py), with a layer in memory.

One file an entry, in the folder that `location()` names. Object code is code: a folder that is not ours or
that others can write is not used. Nothing that goes wrong with the folder is an error (the entry is built
again and kept in memory only); `status()` says what happened.

File format, version 1, little endian: magic (8 bytes), version (u32), SHA-256 of all that follows (32), key
(32), lengths of metadata and object (2 x u64), metadata as JSON, object. Files are written to a temporary
name and renamed, so that readers see whole entries only, whatever other processes do.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import secrets
import stat
import struct
import sys
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright.lang.errors import user_frame

VARIABLE = "TILEWRIGHT_CACHE_DIR"
_MAGIC = b"TWOBJ\r\n\x1a"
_VERSION = 1
_HEAD = struct.Struct("<8sI32s")
_BODY = struct.Struct("<32sQQ")
_SUFFIX = ".two"
_WRITING = 60.0  # seconds after which a temporary file has been left by a writer that died
_MEMORY_LIMIT = 128 << 20  # bytes of objects kept in memory


class CacheWarning(UserWarning):
    """The cache folder can't be used; compiled kernels are kept in memory only."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Object bytes, or another record's, and what goes with them (JSON values only)."""

    image: bytes
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listing:
    """One file of the cache: `meta` is None when the file is damaged; `bytes` is the file's size."""

    key: str
    path: Path
    bytes: int
    modified: float
    meta: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Status:
    """What the cache did in this process. `problem` is the latest reason for not using the folder, or
    None."""

    location: Path | None
    problem: str | None = None
    memory_hits: int = 0
    disk_hits: int = 0
    misses: int = 0
    damaged: int = 0
    written: int = 0
    not_written: int = 0


_lock = threading.Lock()
_memory: OrderedDict[str, Entry] = OrderedDict()
_counts = Status(None)
_warned: set[Path] = set()


def location() -> Path | None:
    """The cache folder: TILEWRIGHT_CACHE_DIR, else `tilewright` in the platform's cache folder.

    None when there is no home folder to put it in. The folder need not exist.
    """
    given = os.environ.get(VARIABLE)
    return Path(given).absolute() if given else platform_folder("XDG_CACHE_HOME", ".cache", "Caches")


def platform_folder(variable: str, linux: str, mac: str) -> Path | None:
    """`tilewright` in a folder that the platform has for a kind of files: on Linux that of an XDG `variable`, by default
    `linux` in the home folder; `mac` in the Library there; None without a home folder."""
    try:
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / mac
        else:
            base = Path(os.environ.get(variable) or Path.home() / linux)
    except RuntimeError:
        return None
    return base / "tilewright"


@functools.cache
def sources_hash(*rooms: str) -> str:
    """SHA-256 over the names and bytes of sources of ours, and of the files beside them that they read; by default those
    of the code generator (1-2 ms, once a process). The rooms are not imported.

    Bytes and not times: a changed file may keep its time, and an installed one may get a new time.
    """
    digest = hashlib.sha256()
    for room in rooms or ("lang", "schedule", "codegen"):
        package = f"tilewright.{room}"
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        top = spec.submodule_search_locations[0]
        for name in sorted(_source_files(top)):
            with open(os.path.join(top, name), "rb") as file:
                content = file.read()
            digest.update(f"{package}/{name} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def _source_files(top: str, inside: str = "") -> list[str]:
    found: list[str] = []
    with os.scandir(os.path.join(top, inside)) as items:
        for item in items:
            if item.name.endswith((".py", ".lark", ".toml")):
                found.append(inside + item.name)
            elif item.is_dir() and item.name != "__pycache__":
                found += _source_files(top, f"{inside}{item.name}/")
    return found


@functools.cache
def _surroundings() -> tuple[tuple[str, str], ...]:
    from tilewright.codegen import target

    host = target.host()
    return (
        ("cpu", host.cpu),
        ("features", host.features),
        ("sources", sources_hash()),
        ("triple", host.triple),
        ("versions", target.versions()),
    )


def key(parts: Mapping[str, str]) -> str:
    """The key (64 hexadecimal digits) of what is built from `parts` by this code generator on this machine.

    Does not depend on the order of `parts`, nor on the Python that runs.
    """
    content = [sorted(parts.items()), _surroundings()]
    return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode()).hexdigest()


def _count(**changes: int) -> None:
    global _counts
    with _lock:
        _counts = replace(_counts, **{name: getattr(_counts, name) + by for name, by in changes.items()})


def _report(problem: str | None) -> None:
    global _counts
    with _lock:
        _counts = replace(_counts, problem=problem)


def status() -> Status:
    """What happened so far, and whether the folder as it stands now can be used."""
    folder = location()
    if folder is None:
        return replace(_counts, problem="there is no home folder")
    unsafe = _danger(folder)
    return replace(_counts, location=folder, problem=unsafe or _counts.problem)


def _danger(folder: Path) -> str | None:
    """Why object code from this folder can't be trusted, or None (also when it does not exist)."""
    try:
        info = os.stat(folder)
    except OSError:
        return None
    if not stat.S_ISDIR(info.st_mode):
        return f"{folder} is not a folder"
    if not hasattr(os, "geteuid"):
        return None
    if info.st_uid != os.geteuid():
        return f"{folder} belongs to another user"
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{folder} can be written by other users (chmod go-w makes it usable)"
    return None


def _folder() -> Path | None:
    """The folder if it can be used. Warns once a folder when it can't be trusted."""
    folder = location()
    if folder is None:
        return None
    problem = _danger(folder)
    if problem is None:
        return folder
    _report(problem)
    with _lock:
        first = folder not in _warned
        _warned.add(folder)
    if first:
        text = f"{problem}: compiled kernels are neither read from it nor kept in it; {VARIABLE} moves the cache"
        _warn(CacheWarning(text))
    return None


def _warn(warning: CacheWarning) -> None:
    """At the user's line: the one that compiled something, wherever it did that."""
    frame = user_frame()
    if frame is None:
        warnings.warn(warning, stacklevel=3)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(warning, CacheWarning, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def pack(name: str, entry: Entry) -> bytes:
    """The bytes of an entry's file."""
    meta = json.dumps(entry.meta, sort_keys=True, separators=(",", ":")).encode()
    body = _BODY.pack(bytes.fromhex(name), len(meta), len(entry.image)) + meta + entry.image
    return _HEAD.pack(_MAGIC, _VERSION, hashlib.sha256(body).digest()) + body


def unpack(name: str, data: bytes) -> Entry | None:
    """The entry in a file's bytes, or None if it is not whole, not of this version or not of this key."""
    try:
        magic, version, digest = _HEAD.unpack_from(data)
        body = memoryview(data)[_HEAD.size :]
        if (magic, version) != (_MAGIC, _VERSION) or hashlib.sha256(body).digest() != digest:
            return None
        owner, meta_size, image_size = _BODY.unpack_from(body)
        if owner.hex() != name or _BODY.size + meta_size + image_size != len(body):
            return None
        meta = bytes(body[_BODY.size : _BODY.size + meta_size])
        return Entry(bytes(body[_BODY.size + meta_size :]), json.loads(meta))
    except (struct.error, ValueError):
        return None


def _remember(name: str, entry: Entry) -> None:
    with _lock:
        _memory[name] = entry
        _memory.move_to_end(name)
        total = sum(len(e.image) for e in _memory.values())
        while total > _MEMORY_LIMIT and len(_memory) > 1:
            _, old = _memory.popitem(last=False)
            total -= len(old.image)


def get(name: str) -> Entry | None:
    """The entry of a key, from memory or from the folder. Damaged files count as missing."""
    with _lock:
        entry = _memory.get(name)
    if entry is not None:
        _count(memory_hits=1)
        return entry
    folder = _folder()
    if folder is not None:
        try:
            data = (folder / (name + _SUFFIX)).read_bytes()
        except FileNotFoundError:
            pass
        except OSError as problem:
            _report(str(problem))
        else:
            entry = unpack(name, data)
            if entry is not None:
                _count(disk_hits=1)
                _remember(name, entry)
                return entry
            _count(damaged=1)
    _count(misses=1)
    return None


def put(name: str, entry: Entry) -> None:
    """Keep an entry, in memory in any case, in the folder if it can be written."""
    _remember(name, entry)
    folder = _folder()
    if folder is None:
        _count(not_written=1)
        return
    data = pack(name, entry)
    temporary = folder / f".{name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            os.replace(temporary, folder / (name + _SUFFIX))
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as problem:
        _count(not_written=1)
        _report(str(problem))
        return
    _count(written=1)


def refuse(problem: str) -> None:
    """Say why something is not kept that could have been."""
    _count(not_written=1)
    _report(problem)


def forget() -> None:
    """Empty the layer in memory (the folder stays)."""
    with _lock:
        _memory.clear()


def entries() -> list[Listing]:
    """All files of the cache, oldest first."""
    folder = location()
    found = []
    if folder is None or _danger(folder) is not None:
        return []
    try:
        paths = list(folder.glob("*" + _SUFFIX))
    except OSError:
        return []
    for path in paths:
        try:
            info, data = path.stat(), path.read_bytes()
        except OSError:  # another process has removed it
            continue
        entry = unpack(path.stem, data)
        found.append(Listing(path.stem, path, info.st_size, info.st_mtime, entry and entry.meta))
    return sorted(found, key=lambda item: (item.modified, item.key))


def size() -> int:
    """Bytes of all files of the cache."""
    return sum(item.bytes for item in entries())


def clear() -> int:
    """Remove all entries, also those in memory, and what interrupted writers left; returns how many there
    were."""
    forget()
    folder = location()
    if folder is None or _danger(folder) is not None:
        return 0
    removed = 0
    for pattern in ("*" + _SUFFIX, ".*.tmp"):
        for path in list(folder.glob(pattern)):
            try:
                if path.suffix != _SUFFIX and time.time() - path.stat().st_mtime < _WRITING:
                    continue
                path.unlink()
            except FileNotFoundError:  # another process was faster
                continue
            except OSError as problem:
                _report(str(problem))
                continue
            removed += path.suffix == _SUFFIX
    return removed
