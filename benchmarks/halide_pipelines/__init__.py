"""The programs of examples/ in Halide, as peers: the same algorithms and types, shown in docs/halide.md.

A module has `pipeline()`: its inputs in the order of a call, the output, and a function that schedules it by hand. Besides
that schedule every autoscheduler of the wheel is tried; the compiler makes code for this very processor.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Peer

# what they are asked for besides the threads; Adams2019 by default follows 32 schedules at a time, and takes 5 minutes here
AUTOSCHEDULERS = {"Mullapudi2016": {}, "Adams2019": {"beam_size": "1"}, "Li2018": {}, "Anderson2021": {}}
Run = Callable[[], np.ndarray]


def peers(name: str, args: tuple[Any, ...], out: np.ndarray, target: float) -> list[Peer]:
    """Peers whose `run` returns an array like `out`. What an autoscheduler can't do is said in its own words."""
    if importlib.util.find_spec("halide") is None:
        return [Peer("Halide", None, target, "halide is not installed")]
    import halide as hl

    found = []
    for scheduler in (None, *AUTOSCHEDULERS):
        title = f"Halide, {scheduler or 'by hand'}"
        try:
            found.append(Peer(title, compiled(name, args, np.empty_like(out), scheduler), target))
        except hl.HalideError as error:
            found.append(Peer(title, None, target, _words(error)))
    return found


def programs() -> tuple[str, ...]:
    """The names of the modules, which are those of programs of examples/."""
    return tuple(sorted(f.stem for f in Path(__file__).parent.glob("*.py") if f.stem != "__init__"))


def jit(name: str) -> Callable[..., Any]:
    """The program scheduled by hand and compiled, to be called with each `argument` and the results."""
    import halide as hl

    inputs, output, schedule = _pipeline(name)
    schedule()
    return hl.Pipeline(output).compile_to_callable(list(inputs), hl.get_host_target())


def argument(value: Any) -> Any:
    """An array or a number as Halide takes it."""
    import halide as hl

    return hl.Buffer(value) if isinstance(value, np.ndarray) else float(value)


def _pipeline(name: str) -> tuple[Any, Any, Callable[[], None]]:
    return importlib.import_module(f"{__name__}.{name}").pipeline()


def _words(error: Exception) -> str:
    """An error's text without the features of the target in brackets."""
    return " ".join(re.sub(r"\([^)]*\)", "", str(error)).split())


def compiled(name: str, args: tuple[Any, ...], out: np.ndarray, scheduler: str | None) -> Run:
    """A call of the program into `out`. The last axis of NumPy is the first one of Halide."""
    import halide as hl

    inputs, output, schedule = _pipeline(name)
    pipeline, target = hl.Pipeline(output), hl.get_host_target()
    if scheduler is None:
        schedule()
    else:
        for parameter, value in zip(inputs, args, strict=True):
            if isinstance(value, np.ndarray):
                parameter.set_estimates([hl.Range(0, n) for n in reversed(value.shape)])
            else:
                parameter.set_estimate(float(value))
        output.set_estimates([hl.Range(0, n) for n in reversed(out.shape)])
        hl.load_plugin(str(Path(hl.__file__).parent / "lib64" / f"libautoschedule_{scheduler.lower()}.so"))
        options = {"parallelism": "1"} | AUTOSCHEDULERS[scheduler]
        pipeline.apply_autoscheduler(target, hl.AutoschedulerParams(scheduler, options))
    call = pipeline.compile_to_callable(list(inputs), target)
    values, result = [argument(v) for v in args], hl.Buffer(out)

    def run() -> np.ndarray:
        call(*values, result)
        return out

    return run
