"""The object cache: several writers, folders that can't be used, damaged files of every kind."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import pytest

from tilewright.codegen import cache

KEY = hashlib.sha256(b"key").hexdigest()
ENTRY = cache.Entry(b"\x7fELF object bytes" * 5, {"kind": "test", "sizes": [1, 2], "name": "ä"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "deep" / "cache"
    monkeypatch.setenv(cache.VARIABLE, str(place))
    cache.forget()
    return place


def file_of(folder: Path, key: str = KEY) -> Path:
    return folder / f"{key}.two"


def test_round_trip_through_memory_and_disk(folder: Path) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, ENTRY)
    assert cache.get(KEY) == ENTRY
    cache.forget()
    before = cache.status().disk_hits
    assert cache.get(KEY) == ENTRY
    assert cache.status().disk_hits == before + 1
    assert cache.location() == folder
    assert folder.stat().st_mode & 0o077 == 0
    assert not list(folder.glob(".*"))


def test_keys_do_not_depend_on_order_but_on_content() -> None:
    assert cache.key({"a": "1", "b": "2"}) == cache.key({"b": "2", "a": "1"})
    different = [
        {},
        {"a": "1"},
        {"a": "12"},
        {"a1": "2"},
        {"a": "1", "b": "2"},
        {"a": '1"', "b": "2"},
        {"a": "2", "b": "1"},
    ]
    assert len({cache.key(parts) for parts in different}) == len(different)


def test_keys_are_the_same_in_every_process() -> None:
    program = "from tilewright.codegen import cache; print(cache.key({'x': '1', 'y': 'ä'}))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("0", "5")
    }
    assert found == {cache.key({"y": "ä", "x": "1"})}


def test_keys_hold_processor_versions_and_sources() -> None:
    names = {name for name, _ in cache._surroundings()}
    assert names == {"cpu", "features", "sources", "triple", "versions"}
    assert len(cache.sources_hash()) == 64


def test_truncated_files_count_as_missing(folder: Path) -> None:
    cache.put(KEY, ENTRY)
    whole = file_of(folder).read_bytes()
    for length in range(len(whole)):
        assert cache.unpack(KEY, whole[:length]) is None
    assert cache.unpack(KEY, whole) == ENTRY
    assert cache.unpack(KEY, whole + b"x") is None


def test_one_changed_byte_anywhere_counts_as_missing() -> None:
    whole = cache.pack(KEY, ENTRY)
    for place in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(whole)
            changed[place] ^= flip
            assert cache.unpack(KEY, bytes(changed)) is None, (place, flip)


@pytest.mark.parametrize("content", [b"", b"\0" * 500, random.Random(1).randbytes(500), b"TWOBJ\r\n\x1a"])
def test_damaged_files_are_rebuilt(folder: Path, content: bytes) -> None:
    cache.put(KEY, ENTRY)
    file_of(folder).write_bytes(content)
    cache.forget()
    before = cache.status().damaged
    assert cache.get(KEY) is None
    assert cache.status().damaged == before + 1
    cache.put(KEY, ENTRY)
    cache.forget()
    assert cache.get(KEY) == ENTRY


def test_an_entry_under_another_key_counts_as_missing(folder: Path) -> None:
    cache.put(KEY, ENTRY)
    other = "ab" * 32
    file_of(folder).rename(file_of(folder, other))
    cache.forget()
    assert cache.get(other) is None


def test_valid_digest_but_wrong_lengths_or_json() -> None:
    def sealed(body: bytes) -> bytes:
        return cache._HEAD.pack(cache._MAGIC, cache._VERSION, hashlib.sha256(body).digest()) + body

    good = cache._BODY.pack(bytes.fromhex(KEY), 2, 3) + b"{}abc"
    assert cache.unpack(KEY, sealed(good)) == cache.Entry(b"abc", {})
    assert cache.unpack(KEY, sealed(cache._BODY.pack(bytes.fromhex(KEY), 2, 99) + b"{}abc")) is None
    assert cache.unpack(KEY, sealed(cache._BODY.pack(bytes.fromhex(KEY), 2, 3) + b"{xabc")) is None
    assert cache.unpack(KEY, sealed(b"short")) is None


def test_a_folder_in_the_place_of_a_file(folder: Path) -> None:
    file_of(folder).mkdir(parents=True, mode=0o700)
    assert cache.get(KEY) is None
    cache.put(KEY, ENTRY)
    assert cache.get(KEY) == ENTRY  # from memory
    assert cache.status().problem is not None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_is_refused_once_loudly(folder: Path, mode: int) -> None:
    cache.put(KEY, ENTRY)
    folder.chmod(mode)
    cache.forget()
    with pytest.warns(cache.CacheWarning, match="other users"):
        assert cache.get(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, ENTRY)
        assert cache.get(KEY) == ENTRY
    assert "other users" in (cache.status().problem or "")
    assert cache.entries() == [] and cache.size() == 0
    cache.clear()
    assert file_of(folder).exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to change owners")
def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    cache.put(KEY, ENTRY)
    os.chown(folder, 12345, 12345)
    cache.forget()
    with pytest.warns(cache.CacheWarning, match="another user"):
        assert cache.get(KEY) is None


def test_a_file_in_the_place_of_the_folder(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("not a folder")
    with pytest.warns(cache.CacheWarning, match="not a folder") as warned:
        cache.put(KEY, ENTRY)
    assert [w.filename for w in warned] == [__file__]  # the line that needed the cache, not one of ours
    assert cache.get(KEY) == ENTRY


def test_a_folder_below_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "cache"))
    before = cache.status().not_written
    cache.put(KEY, ENTRY)
    assert cache.get(KEY) == ENTRY
    assert cache.status().not_written == before + 1
    cache.forget()
    assert cache.get(KEY) is None


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv(cache.VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    cache.forget()
    assert cache.location() is None
    cache.put(KEY, ENTRY)
    assert cache.get(KEY) == ENTRY
    assert cache.entries() == []
    assert cache.status().problem == "there is no home folder"
    cache.forget()


def test_default_location(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.VARIABLE, "")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.location() == tmp_path / "tilewright"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.location() == tmp_path / ".cache" / "tilewright"


# Run as its own process: limits on file sizes and changes of user can't be taken back.
UNWRITABLE = """
import os, sys, resource, signal
from tilewright.codegen import cache
key, entry = "cd" * 32, cache.Entry(b"x" * 100_000, {})
small = cache.Entry(b"small", {})
cache.put("ef" * 32, small)
cache.forget()
if sys.argv[1] == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
else:
    if os.geteuid() == 0:
        for path in (sys.argv[2], sys.argv[2] + "/" + "ef" * 32 + ".two"):
            os.chown(path, 12345, 12345)
        os.setuid(12345)
    os.chmod(sys.argv[2], 0o500)
cache.put(key, entry)
assert cache.get(key) == entry
assert cache.get("ef" * 32) == small
status = cache.status()
assert (status.written, status.not_written, status.disk_hits) == (1, 1, 1), status
assert status.problem
print(sorted(os.listdir(sys.argv[2])) == ["ef" * 32 + ".two"])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="uses POSIX limits")
@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_full_and_read_only_folders_still_serve(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "cache"
    for above in (tmp_path, *tmp_path.parents):  # another user gets there
        if above == Path(tempfile.gettempdir()):
            break
        above.chmod(0o711)
    done = subprocess.run(
        [sys.executable, "-c", UNWRITABLE, kind, str(place)],
        capture_output=True,
        text=True,
        env={**os.environ, cache.VARIABLE: str(place)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True"
    place.chmod(0o700)


MANY = """
import sys, random
from tilewright.codegen import cache
draw = random.Random(int(sys.argv[1]))
for _ in range(150):
    number = draw.randrange(12)
    key = f"{number:064x}"
    if draw.random() < 0.3:
        cache.forget()
    entry = cache.get(key)
    if entry is None or draw.random() < 0.4:
        cache.put(key, cache.Entry(bytes([number]) * (2000 + number), {"number": number}))
    else:
        assert entry.image == bytes([number]) * (2000 + number) and entry.meta == {"number": number}
    if draw.random() < 0.02:
        cache.clear()
status = cache.status()
assert status.damaged == 0 and status.problem is None, status
"""


def test_several_processes_at_once(folder: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", MANY, str(i)], stderr=subprocess.PIPE) for i in range(4)]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()
    assert all(item.meta is not None for item in cache.entries())
    assert not list(folder.glob(".*.tmp"))


def test_several_threads_at_once(folder: Path) -> None:
    problems: list[BaseException] = []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        try:
            for _ in range(100):
                number = draw.randrange(5)
                key = f"{number:064x}"
                if draw.random() < 0.5:
                    cache.put(key, cache.Entry(bytes([number]) * 500, {}))
                else:
                    entry = cache.get(key)
                    assert entry is None or entry.image == bytes([number]) * 500
                if draw.random() < 0.2:
                    cache.forget()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(cache.entries()) == 5


def test_listing_and_clearing(folder: Path) -> None:
    assert cache.entries() == [] and cache.size() == 0 and cache.clear() == 0
    cache.put(KEY, ENTRY)
    cache.put("00" * 32, cache.Entry(b"", {"n": 1}))
    file_of(folder, "11" * 32).write_bytes(b"damaged")
    for name, age in ((".left.1.tmp", 1000), (".written.2.tmp", 0)):
        (folder / name).write_bytes(b"")
        os.utime(folder / name, (time.time() - age,) * 2)
    (folder / "foreign.txt").write_bytes(b"not ours")
    found = {item.key: item.meta for item in cache.entries()}
    assert found == {KEY: ENTRY.meta, "00" * 32: {"n": 1}, "11" * 32: None}
    assert cache.size() == sum(item.bytes for item in cache.entries())
    assert cache.clear() == 3
    assert sorted(os.listdir(folder)) == [".written.2.tmp", "foreign.txt"]
    assert cache.get(KEY) is None


def test_memory_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MEMORY_LIMIT", 1000)
    monkeypatch.setenv(cache.VARIABLE, str(folder.parent / "x"))
    for number in range(10):
        cache.put(f"{number:064x}", cache.Entry(b"x" * 300, {}))
    assert len(cache._memory) == 3
    cache.forget()
