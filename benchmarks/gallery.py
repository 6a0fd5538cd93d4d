"""`python -m benchmarks.gallery [NAME ...] [--threads N] [--markdown]`: the programs of examples/ at real sizes.

Every schedule of a program, and the default schedule, run in turns on the same data; medians of seconds. Values are
judged by the programs themselves (`python examples/NAME.py`) and by the tests.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

# name -> what its inputs() are asked for; static parameters stand apart
SIZES: dict[str, dict[str, Any]] = {
    "argmax": {"M": 4096, "N": 1024},
    "attention": {"H": 8, "M": 1024, "N": 1024, "D": 64},
    "bilateral_grid": {"repeat": 2},
    "blur": {"repeat": 4},
    "conv1d": {"N": 4_000_000, "K": 65},
    "conv_layer": {"B": 1, "size": 56, "CI": 128, "CO": 128},
    "decode_step": {"B": 4, "H": 8, "G": 4, "N": 1024, "D": 128},
    "depthwise_conv": {"B": 1, "size": 56, "C": 128},
    "elementwise": {"N": 1 << 24},
    "equalise": {"repeat": 4},
    "fft": {"B": 256, "length": 1024},
    "gauss_seidel": {"H": 1000, "W": 1000},
    "gemm": {"M": 1031, "N": 1031, "K": 1031},
    "harris": {"repeat": 2},
    "heat": {"H": 2048, "W": 2048},
    "histogram": {"repeat": 4},
    "iir_blur": {"repeat": 2},
    "int8_matmul": {"M": 1024, "N": 1024, "K": 1024},
    "layer_norm": {"M": 4096, "N": 1024},
    "life": {"H": 2048, "W": 2048},
    "local_laplacian": {"repeat": 2},
    "mandelbrot": {"H": 600, "W": 900},
    "matmul": {"M": 1024, "N": 1024, "K": 1024},
    "matmul_f64": {"M": 1024, "N": 1024, "K": 1024},
    "matmul_gelu": {"M": 1024, "N": 4096, "K": 1024},
    "matvec": {"M": 4096, "K": 4096},
    "matvec_bf16": {"M": 4096, "K": 4096},
    "matvec_int4": {"M": 4096, "G": 128},
    "matvec_int8": {"M": 4096, "K": 4096},
    "nan_moments": {"M": 1000, "N": 1000},
    "pointwise_conv": {"P": 56 * 56, "CI": 256, "CO": 64},
    "prefix_sum": {"T": 2000, "C": 1000},
    "resize": {"rows": 1200, "columns": 1024, "height": 600, "width": 512, "repeat": 1},
    "rms_norm": {"M": 4096, "N": 1024},
    "rotary": {"T": 512, "H": 32, "D": 64},
    "separable_conv": {"B": 1, "size": 56, "CI": 128, "CO": 128},
    "snitch_matmul": {"M": 256, "N": 256, "K": 256},
    "softmax": {"M": 4096, "N": 1024},
    "stencil_chain": {"repeat": 2},
    "strided_conv": {"B": 1, "size": 56, "R": 3, "CI": 64, "CO": 128},
    "transpose": {"M": 4096, "N": 4096},
    "tridiagonal": {"N": 60, "S": 50_000},
    "unsharp": {"repeat": 2},
    "wave": {"H": 2048, "W": 2048},
}
STATICS = {"fft": {"length": 1024}}
ROUNDS = 15


def times(name: str, rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of a call by the name of the schedule; `default` first."""
    from benchmarks.cases.data import example
    from benchmarks.harness import repetitions, sample

    module, statics = example(name), STATICS.get(name, {})
    kernel = getattr(module, name)
    args = module.inputs(**SIZES[name])
    args = args if isinstance(args, tuple) else (args,)
    runs: dict[str, Callable[[], Any]] = {}
    for make in (None, *module.SCHEDULES):
        schedule = kernel.schedule(**statics) if make is None else make(**statics)
        runs["default" if make is None else make.__name__] = _call(kernel.compile(schedule), args)
    counts = {n: repetitions(run) for n, run in runs.items()}
    taken: dict[str, list[float]] = {n: [] for n in runs}
    start = time.perf_counter()
    while len(taken["default"]) < rounds and (len(taken["default"]) < 3 or time.perf_counter() - start < 10):
        for n, run in runs.items():
            taken[n].append(sample(run, counts[n]))
    return {n: statistics.median(t) for n, t in taken.items()}


def _call(compiled: Any, args: tuple) -> Callable[[], Any]:
    """A call into arrays that are there already, where the kernel writes none of its arguments."""
    result = compiled(*args)
    return lambda: compiled(*args, out=result)


def _lines(names: list[str], markdown: bool) -> Iterator[str]:
    from benchmarks.harness import shown

    if markdown:
        yield "| example | size | default schedule | others | expert |"
        yield "|---|---|---|---|---|"
    for name in names:
        found = times(name)
        size = " ".join(f"{k}={v}" for k, v in SIZES[name].items())
        default, *others, expert = [(n, shown(t)) for n, t in found.items()]
        if markdown:
            between = ", ".join(f"`{n}` {t}" for n, t in others)
            yield f"| [{name}](../examples/{name}.py) | {size} | {default[1]} | {between} | {expert[1]} |"
        else:
            yield f"{name:16} {size:40} " + "  ".join(f"{n} {t}" for n, t in [default, *others, expert])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gallery", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs of examples/ (default: all)")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--markdown", action="store_true", help="a table for docs/gallery.md")
    args = parser.parse_args()
    unknown = [n for n in args.names if n not in SIZES]
    if unknown:
        parser.error(f"there is no example {unknown[0]!r}; there are {', '.join(SIZES)}")
    from benchmarks.__main__ import pin, processors

    available = processors()
    if not 1 <= args.threads <= len(available):
        parser.error(f"--threads must be 1..{len(available)} here")
    pin(available[-args.threads :])
    for line in _lines(args.names or list(SIZES), args.markdown):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
