"""The thread pool and the allocator: values, concurrency, nesting, failures, forks, foreign executors."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.codegen import abi, jit, runtime, target
from tilewright.codegen.runtime import executors, processors

# square(env, i): env is { result i64*, ... }; result[i] = i * i + 1
BODIES = """
define i32 @square(ptr %env, i64 %i) {
  %result = load ptr, ptr %env
  %place = getelementptr i64, ptr %result, i64 %i
  %ii = mul i64 %i, %i
  %old = load i64, ptr %place
  %new = add i64 %ii, %old
  %one = add i64 %new, 1
  store i64 %one, ptr %place
  ret i32 0
}

; Two tasks, each of which ends only when the other has begun.
define i32 @meet(ptr %env, i64 %i) {
entry:
  atomicrmw add ptr %env, i64 1 seq_cst
  br label %wait
wait:
  %count = load atomic i64, ptr %env seq_cst, align 8
  %alone = icmp slt i64 %count, 2
  br i1 %alone, label %wait, label %out
out:
  ret i32 0
}
"""


@pytest.fixture(scope="module")
def bodies() -> dict[str, int]:
    library = jit.load(target.optimize_and_emit(BODIES), ("square", "meet")).pin()
    return {name: library.address(name) for name in ("square", "meet")}


CROWD = 8 * sorted(processors.available())
LONG = 1 << 40  # work of loops that are always worth waking a thread


def run(
    context: abi.Context, body: int | Callable[[int | None, int], int], env: int | None, n: int, work: int = LONG
) -> int:
    function = body
    if not isinstance(body, int):
        wrapped = abi.BODY(body)
        function = ctypes.cast(wrapped, ctypes.c_void_p).value
    return abi.PARALLEL_FOR(context.parallel_for)(ctypes.addressof(context), function, env, n, work)


def squares(context: abi.Context, body: int, n: int) -> bool:
    result = (ctypes.c_int64 * max(n, 1))()
    env = ctypes.c_void_p(ctypes.addressof(result))
    assert run(context, body, ctypes.addressof(env), n) == 0
    return list(result[:n]) == [i * i + 1 for i in range(n)]


@pytest.fixture(scope="module", autouse=True)
def crowded() -> Iterator[None]:
    """More workers than this machine has processors: several share one."""
    runtime.configure(processors=CROWD)
    yield
    runtime.configure()


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 64, 1000, 100_003])
def test_every_task_runs_once(bodies: dict[str, int], threads: int, n: int) -> None:
    assert squares(runtime.context(threads), bodies["square"], n)


def test_negative_counts_do_nothing(bodies: dict[str, int]) -> None:
    assert run(runtime.context(2), bodies["square"], None, -5) == 0


def test_two_threads_really_work_at_once(bodies: dict[str, int]) -> None:
    for _ in range(200):
        counter = ctypes.c_int64(0)
        assert run(runtime.context(2), bodies["meet"], ctypes.addressof(counter), 2) == 0
        assert counter.value == 2


def test_workers_start_only_when_needed() -> None:
    program = """
import ctypes
from tilewright.codegen import abi, runtime
body = abi.BODY(lambda env, i: 0)
address = ctypes.cast(body, ctypes.c_void_p).value
call = abi.PARALLEL_FOR(runtime.address("parallel_for"))
runtime.configure(processors=())
for threads, n in ((1, 100), (4, 1), (2, 100), (4, 3), (4, 100), (2, 100)):
    call(ctypes.addressof(runtime.context(threads)), address, None, n, 1 << 40)
    print(runtime.workers(), end=" ")
assert "numba" not in __import__("sys").modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0", "1", "2", "3", "3"]


def test_no_more_threads_than_processors(bodies: dict[str, int]) -> None:
    """Two threads on one processor only take turns."""
    used: set[int] = set()
    try:
        runtime.configure(processors=CROWD[:1])
        assert run(runtime.context(4), lambda env, task: used.add(threading.get_ident()) or 0, None, 50) == 0
        assert squares(runtime.context(4), bodies["square"], 1000)
    finally:
        runtime.configure(processors=CROWD)
    assert used == {threading.get_ident()}


def test_short_loops_wake_workers_only_where_they_follow_each_other() -> None:
    program = (
        BODY_FREE
        + """
loop(999)                                     # the only one for a long while
assert runtime.workers() == 0
stop = time.monotonic() + 30
while not runtime.workers() and time.monotonic() < stop:
    loop(999)
assert runtime.workers() == 1
"""
    )
    assert alone(program) == 0


def test_long_loops_wake_workers() -> None:
    assert alone(BODY_FREE + "loop(1000)\nassert runtime.workers() == 1") == 0


BODY_FREE = """
import ctypes, time
from tilewright.codegen import abi, runtime
runtime.configure(processors=(), short=1000)
body = runtime.address("kept")                # a function of native code; what it returns does not matter
call, context = abi.PARALLEL_FOR(runtime.address("parallel_for")), ctypes.addressof(runtime.context(2))
def loop(work):
    call(context, body, None, 2, work)
"""


def alone(program: str) -> int:
    """The exit code of a program in a process of its own."""
    return subprocess.run([sys.executable, "-c", program], timeout=60).returncode


@given(st.integers(2, 300), st.sets(st.integers(0, 299), min_size=1), st.integers(1, 4))
@settings(max_examples=30)
def test_the_code_of_the_smallest_failing_task(n: int, failing: set[int], threads: int) -> None:
    ran: list[int] = []

    def body(_env: int | None, task: int) -> int:
        ran.append(task)
        return 1000 + task if task in failing else 0

    first = min(failing)
    code = run(runtime.context(threads), body, None, n)
    assert code == (1000 + first if first < n else 0)
    assert set(range(min(first + 1, n))) <= set(ran)
    assert len(ran) == len(set(ran))


def test_negative_codes_come_back_as_they_are() -> None:
    for threads in (1, 3):
        assert run(runtime.context(threads), lambda env, task: -7 if task == 2 else 0, None, 5) == -7


@pytest.mark.parametrize("threads", [2, 3])
def test_a_loop_inside_a_task(bodies: dict[str, int], threads: int) -> None:
    context = runtime.context(threads)
    good: list[bool] = []

    def body(_env: int | None, _task: int) -> int:
        good.append(squares(context, bodies["square"], 50))
        return 0

    assert run(context, body, None, 20) == 0
    assert good == [True] * 20


def test_concurrent_callers(bodies: dict[str, int]) -> None:
    good: list[bool] = []

    def work(threads: int) -> None:
        good.append(all(squares(runtime.context(threads), bodies["square"], n) for n in range(0, 400, 3)))

    callers = [threading.Thread(target=work, args=(threads,)) for threads in (1, 2, 3, 2, 4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert good == [True] * 5


@pytest.mark.parametrize("spin", [0, 3])
def test_sleeping_and_waking(bodies: dict[str, int], spin: int) -> None:
    """Without spinning every loop goes through the condition variables, on both sides."""
    runtime.configure(processors=CROWD, spin=spin)
    try:
        for n in (2, 3, 5, 100, 1000):
            for _ in range(40):
                assert squares(runtime.context(3), bodies["square"], n)
                counter = ctypes.c_int64(0)
                assert run(runtime.context(2), bodies["meet"], ctypes.addressof(counter), 2) == 0
    finally:
        runtime.configure(processors=CROWD)


FORK = """
import ctypes, os, sys, threading
from tilewright.codegen import abi, runtime
runtime.configure(processors=())
context = runtime.context(3)
address = ctypes.addressof(context)
call = abi.PARALLEL_FOR(context.parallel_for)
alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(context.alloc)
release = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(context.release)
def loop(n):
    seen = []
    body = abi.BODY(lambda env, i: seen.append(i) or 0)
    assert call(address, ctypes.cast(body, ctypes.c_void_p).value, None, n, 1 << 40) == 0
    assert sorted(seen) == list(range(n)), seen
    block = alloc(address, 1 << 20)
    ctypes.memset(block, 1, 1 << 20)
    release(address, block)
loop(50)
assert runtime.workers() == 2
stop = False
def busy():
    while not stop:
        loop(20)
other = threading.Thread(target=busy)
other.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        assert runtime.workers() == 0
        loop(50)
        assert runtime.workers() == 2
        loop(10)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    loop(10)
stop = True
other.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_interpreter_ends_while_workers_spin() -> None:
    program = """
import ctypes
from tilewright.codegen import abi, runtime
runtime.configure(processors=(), spin=10**9)
body = abi.BODY(lambda env, i: 0)
abi.PARALLEL_FOR(runtime.address("parallel_for"))(
    ctypes.addressof(runtime.context(2)), ctypes.cast(body, ctypes.c_void_p).value, None, 10, 1 << 40)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def masks() -> tuple[set[int], set[int]]:
    """Affinity of the caller and of the one worker in a loop of two tasks that meet."""
    main = threading.get_ident()
    seen: dict[int, set[int]] = {}
    gate = threading.Barrier(2)

    def body(_env: int | None, _task: int) -> int:
        seen[threading.get_ident()] = os.sched_getaffinity(0)  # first: a worker that is waited for gets loose
        gate.wait(timeout=20)
        return 0

    assert run(runtime.context(2), body, None, 2) == 0
    caller = seen.pop(main)
    ((_, worker),) = seen.items()
    return caller, worker


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity masks here")
def test_workers_are_pinned_and_the_caller_is_not() -> None:
    before = os.sched_getaffinity(0)
    caller, worker = masks()
    assert caller == before == os.sched_getaffinity(0)
    assert len(worker) == 1 and worker <= before


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two processors"
)
def test_a_worker_makes_room_for_the_caller() -> None:
    before = os.sched_getaffinity(0)
    try:
        for _ in range(4):
            _, worker = masks()
            os.sched_setaffinity(0, worker)
            caller, moved = masks()
            assert caller == worker and len(moved) == 1 and moved <= before - worker
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity masks here")
def test_a_worker_that_is_waited_for_may_run_anywhere_and_is_pinned_again() -> None:
    before, main = os.sched_getaffinity(0), threading.get_ident()
    seen: list[set[int]] = []
    gate = threading.Barrier(2)

    def body(_env: int | None, _task: int) -> int:
        gate.wait(timeout=20)
        while threading.get_ident() != main and not seen:  # the caller is soon done and waits
            if len(os.sched_getaffinity(0)) == len(before):
                seen.append(os.sched_getaffinity(0))
        return 0

    assert run(runtime.context(2), body, None, 2) == 0
    assert seen == [before]
    _, worker = masks()
    assert len(worker) == 1


def allocator(
    context: abi.Context | None = None,
) -> tuple[Callable[[int], int | None], Callable[[int | None], None]]:
    context = context or runtime.context(1)
    at = ctypes.addressof(context)
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(context.alloc)
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(context.release)
    return (lambda size: alloc(at, size)), (lambda block: release(at, block))


@pytest.fixture
def memory():
    runtime.keep_bytes(0)
    runtime.keep_bytes(64 << 20)
    yield allocator()
    runtime.keep_bytes(0)
    runtime.keep_bytes(256 << 20)


@given(st.lists(st.integers(0, 300_000), max_size=30))
@settings(max_examples=20)
def test_blocks_are_aligned_and_apart(sizes: list[int]) -> None:
    alloc, release = allocator()
    blocks = [(alloc(size) or 0, size) for size in sizes]
    assert all(block and block % abi.ALIGNMENT == 0 for block, _ in blocks)
    for number, (block, size) in enumerate(blocks):
        ctypes.memset(block, number + 1, size)
    for number, (block, size) in enumerate(blocks):
        assert ctypes.string_at(block, size) == bytes([number + 1]) * size
    for block, _ in blocks:
        release(block)


def test_big_blocks_are_reused_and_small_ones_are_not_kept(memory) -> None:
    alloc, release = memory
    block = alloc(16 << 20)
    release(block)
    assert runtime.kept_bytes() == 16 << 20
    assert alloc(12 << 20) == block  # at most half as large again
    assert runtime.kept_bytes() == 0
    release(block)
    other = alloc(1 << 20)
    assert other != block
    release(other)
    release(alloc(100))
    assert runtime.kept_bytes() == 17 << 20


def test_kept_memory_is_bounded(memory) -> None:
    alloc, release = memory
    blocks = [alloc(10 << 20) for _ in range(9)]
    for block in blocks:
        release(block)
    assert runtime.kept_bytes() == 60 << 20
    huge = alloc(65 << 20)
    release(huge)
    assert runtime.kept_bytes() == 60 << 20
    runtime.keep_bytes(25 << 20)
    assert runtime.kept_bytes() == 20 << 20
    many = [alloc(64 << 10) for _ in range(100)]
    for block in many:
        release(block)
    assert runtime.kept_bytes() <= 32 * 10 << 20


def test_impossible_requests_and_null(memory) -> None:
    alloc, release = memory
    assert alloc(-1) is None
    assert alloc(1 << 62) is None
    assert alloc(1 << 55) is None
    release(None)


def test_allocation_from_several_threads(memory) -> None:
    alloc, release = memory
    bad: list[int] = []

    def work(number: int) -> None:
        for turn in range(100):
            size = 65536 * (1 + (turn + number) % 4)
            block = alloc(size)
            ctypes.memset(block, number, size)
            if ctypes.string_at(block, size) != bytes([number]) * size:
                bad.append(number)
            release(block)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bad == []


def test_an_executor_of_the_caller(bodies: dict[str, int]) -> None:
    with ThreadPoolExecutor(2) as executor:
        context = executors.context_for(executor, 3)
        assert context.threads == 3
        for n in (0, 1, 2, 100):
            assert squares(context, bodies["square"], n)
        assert run(context, lambda env, task: 5 + task if task >= 3 else 0, None, 40) == 8
        used: set[int] = set()
        gate = threading.Barrier(3)

        def body(_env: int | None, _task: int) -> int:
            used.add(threading.get_ident())
            gate.wait(timeout=20)
            return 0

        assert run(context, body, None, 3) == 0
        assert len(used) == 3
    assert squares(context, bodies["square"], 100)  # shut down: the caller does everything


def test_an_executor_whose_threads_all_wait(bodies: dict[str, int]) -> None:
    with ThreadPoolExecutor(1) as executor:
        context = executors.context_for(executor, 4)
        assert executor.submit(lambda: squares(context, bodies["square"], 30)).result(timeout=20)


def test_quotas_of_control_groups(tmp_path: Path) -> None:
    membership = tmp_path / "cgroup"
    membership.write_text("0::/a/b\n")
    inner = tmp_path / "fs" / "a" / "b"
    inner.mkdir(parents=True)
    top = tmp_path / "fs"
    assert processors.quota(top, membership) is None
    (inner / "cpu.max").write_text("max 100000\n")
    assert processors.quota(top, membership) is None
    (inner.parent / "cpu.max").write_text("150000 100000\n")
    assert processors.quota(top, membership) == 1.5
    (inner / "cpu.max").write_text("50000 100000\n")
    assert processors.quota(top, membership) == 0.5
    (inner / "cpu.max").write_text("nonsense")
    (inner.parent / "cpu.max").unlink()
    (top / "cpu").mkdir()
    (top / "cpu" / "cpu.cfs_quota_us").write_text("-1")
    (top / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert processors.quota(top, tmp_path / "none") is None
    (top / "cpu" / "cpu.cfs_quota_us").write_text("300000")
    assert processors.quota(top, tmp_path / "none") == 3.0


def test_default_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_THREADS", raising=False)
    monkeypatch.setattr(processors, "available", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(processors, "own_quota", lambda: None)
    assert processors.default_threads() == 4
    monkeypatch.setattr(processors, "own_quota", lambda: 1.5)
    assert processors.default_threads() == 2
    monkeypatch.setattr(processors, "own_quota", lambda: 0.1)
    assert processors.default_threads() == 1
    monkeypatch.setenv("TILEWRIGHT_THREADS", "6")
    assert processors.default_threads() == 6
    monkeypatch.setenv("TILEWRIGHT_THREADS", "many")
    assert processors.default_threads() == 1


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "x86_64-apple-darwin", "riscv64-unknown-linux-gnu"])
def test_the_runtime_is_valid_code_elsewhere(triple: str) -> None:
    module = runtime.runtime_text(triple)
    assert "tw_rt_parallel_for" in target.optimised_ir(module, "none", target.host())
    if triple.startswith("aarch64"):
        assert "yield" in target.assembly(module, "fast", target.Target(triple, "generic", ""))


def test_the_runtime_without_posix_threads(bodies: dict[str, int]) -> None:
    text = runtime.runtime_text("x86_64-pc-windows-msvc")
    names = [f"tw_rt_{name}" for name in ("parallel_for", "alloc", "release", "keep", "kept", "workers")]
    library = jit.load(target.optimize_and_emit(text, extra_symbols=("malloc", "free")), tuple(names)).pin()
    context = abi.Context(4, *(library.address(name) for name in names[:3]), None)
    assert squares(context, bodies["square"], 100)
    assert run(context, lambda env, task: 9 if task == 3 else 0, None, 5) == 9
    alloc, release = allocator(context)
    blocks = [alloc(size) for size in (0, 1, 63, 64, 100_000)]
    assert all(block and block % abi.ALIGNMENT == 0 for block in blocks)
    for block, size in zip(blocks, (0, 1, 63, 64, 100_000), strict=True):
        ctypes.memset(block, 1, size)
    for block in blocks:
        release(block)
    assert alloc(-1) is None
