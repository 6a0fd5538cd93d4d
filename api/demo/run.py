"""The jobs of the demonstration: run, measured, judged by derived error bounds, and simulated."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.demo import kernels
from tilewright.demo.photo import photograph, write_pictures
from tilewright.demo.report import Report, Row, table
from tilewright.hw import Machine, load_machine
from tilewright.kernels import Kernel
from tilewright.lang.binding import bind
from tilewright.lang.errorbound import error_bound
from tilewright.schedule.registers import Registers, host_registers
from tilewright.schedule.schedule import Schedule

MACHINE, SCRATCHPAD = "toy", "spm"
MACHINE_REGISTERS = Registers(32, 32)  # 1 KiB of vectors of 32 bytes
AMOUNT = np.float32(1.0)
ORDER = 1024  # of the matrices
SIMULATED_ORDER = 256
ROWS_JUDGED = 16  # of the product: the error bound of every row would take longer than all the rest
ROUNDS = 7

Scheduler = Callable[[Registers, str], Schedule]


@dataclass(frozen=True)
class Job:
    """One algorithm with its data. `work` is what a run does, in `unit` times a second."""

    name: str
    kernel: Kernel
    args: tuple[Any, ...]
    schedules: Mapping[str, Scheduler | None]
    numpy: Callable[[], Any]
    work: float
    unit: str
    judged: Callable[[Any], float]
    simulated: Mapping[str, int]
    simulated_inputs: Mapping[str, Any]


def demo(out: str | Path = "demo-output", *, say: Callable[[str], Any] = print) -> Report:
    """Run everything and write the pictures to the folder `out`; `say` gets lines of text as they come.

    NumPy and ours run with all the threads they like, in turns. Raises MissingPartError without Matplotlib or Pillow,
    and OSError where the pictures can't be written.
    """
    start = time.perf_counter()
    photo = photograph()
    Path(out).mkdir(parents=True, exist_ok=True)  # first: nobody likes to hear at the end that it can't be written
    machine = load_machine(MACHINE)
    jobs = (_photo_job(photo), _matrix_job())
    rows: list[Row] = []
    for job in jobs:
        say(f"{job.name}: {', '.join(job.schedules)}")
        rows += _run(job, machine)
    blurred, sharp = kernels.sharpen.compile(kernels.in_strips(host_registers()))(photo, AMOUNT)
    pictures = write_pictures(photo, blurred, sharp, Path(out))
    simulated = tuple(f"{j.kernel.__name__} at " + ", ".join(f"{k}={v}" for k, v in j.simulated.items()) for j in jobs)
    report = Report(tuple(rows), MACHINE, simulated, tuple(map(str, pictures)), time.perf_counter() - start)
    say("\n" + table(rows, MACHINE) + "\n")
    say(f"moved, peak: bytes to and from main memory, and the peak of {SCRATCHPAD} on the simulated machine {MACHINE}")
    say(f"             ({'; '.join(simulated)})")
    say("error/bound: the largest error as a part of the bound that is derived for it")
    say(f"pictures:    {', '.join(report.pictures)}")
    say(f"{report.seconds:.1f} s in all")
    return report


# The jobs -------------------------------------------------------------------------------------------------------


def _photo_job(photo: np.ndarray) -> Job:
    p = kernels.sharpen.pipeline()
    bounds = error_bound(p, bind(p, (photo, AMOUNT)))
    channels, height, width = photo.shape
    return Job(
        f"sharpen a photograph, {width} x {height}", kernels.sharpen, (photo, AMOUNT),
        {"unscheduled": None, "stage by stage": kernels.stage_by_stage, "in strips": kernels.in_strips},
        lambda: _numpy_sharpen(photo, AMOUNT),
        photo.size * (1 + 4 + 4), "GB/s",
        lambda result: max(_error(r, b) for r, b in zip(result, bounds, strict=True)),
        {"C": channels, "H": height, "W": width}, {"photo": photo, "amount": AMOUNT},
    )  # fmt: skip


def _numpy_sharpen(photo: np.ndarray, amount: np.float32) -> tuple[np.ndarray, np.ndarray]:
    """The same in NumPy, as one would write it there."""
    taps = np.array(kernels.TAPS, np.float32)
    channels, height, width = photo.shape
    pixel = np.pad(photo, ((0, 0), (2, 2), (2, 2)), mode="edge").astype(np.float32)
    across = np.zeros((channels, height + 4, width), np.float32)
    blurred = np.zeros(photo.shape, np.float32)
    for d, w in enumerate(taps):
        across += w * pixel[:, :, d : d + width]
    for d, w in enumerate(taps):
        blurred += w * across[:, d : d + height]
    inner = pixel[:, 2:-2, 2:-2]
    return blurred, np.clip(inner + amount * (inner - blurred), 0, 255)


def _matrix_job() -> Job:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((ORDER, ORDER), np.float32) for _ in range(2))
    p = kernels.matmul.pipeline()
    chosen = np.linspace(0, ORDER - 1, ROWS_JUDGED).astype(int)
    (bound,) = error_bound(p, bind(p, (a[chosen], b)))
    return Job(
        f"multiply matrices, {ORDER} x {ORDER} f32", kernels.matmul, (a, b),
        {"unscheduled": None, "tiled": kernels.tiled, "packed": kernels.packed},
        lambda: a @ b,
        2 * ORDER**3, "GFLOP/s",
        lambda result: _error(result[chosen], bound),
        dict.fromkeys("MNK", SIMULATED_ORDER), {},
    )  # fmt: skip


def _error(result: np.ndarray, bound: Any) -> float:
    """The largest error in units of the bound; infinite where there is one and none is allowed."""
    error = np.abs(result.astype(np.float64) - bound.value)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(error == 0, 0.0, error / bound.bound)
    return float(np.max(np.where(bound.ambiguous, 0.0, part)))


# Running them ---------------------------------------------------------------------------------------------------


def _run(job: Job, machine: Machine) -> list[Row]:
    registers = host_registers()
    compiled = {n: job.kernel.compile(s and s(registers, "main")) for n, s in job.schedules.items()}
    results = {n: f(*job.args) for n, f in compiled.items()}
    times = _in_turns({n: (lambda f=f: f(*job.args)) for n, f in compiled.items()} | {"NumPy": job.numpy})
    rows = []
    for name, scheduler in job.schedules.items():
        moved, peak = _simulate(job, scheduler, machine)
        rate = job.work / times[name]
        error = job.judged(results[name])
        rows.append(Row(job.name, name, times[name], rate, job.unit, times["NumPy"], moved, peak, error))
    return rows


def _in_turns(runs: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Median seconds of each, run one after the other in rounds; a pause lets the threads of the one before settle."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(ROUNDS):
        for name, run in runs.items():
            time.sleep(0.03)
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) for name, t in times.items()}


def _simulate(job: Job, scheduler: Scheduler | None, machine: Machine) -> tuple[int, int]:
    """Bytes to and from main memory, and the peak of the scratchpad."""
    schedule = scheduler and scheduler(MACHINE_REGISTERS, SCRATCHPAD)
    run = job.kernel.simulate(schedule, machine=machine, sizes=job.simulated, inputs=job.simulated_inputs)
    main = run.account.of(machine.main.name)
    peak = max((f.peak for f in run.account.footprint if f.memory == SCRATCHPAD), default=0)
    return main.bytes_read + main.bytes_written, peak
