"""From LLVM IR text to machine code for this processor: target machine, optimisation levels, emission.

Objects are position independent (small code model), depend on nothing but the text, the level and the
target, and are byte-identical between processes.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import llvmlite
import llvmlite.binding as llvm

from tilewright.codegen.objects import check_symbols
from tilewright.codegen.one_lane import one_lane_stores_replaced, stores_masked_integers
from tilewright.codegen.side_by_side import emitted, run_passes
from tilewright.lang.errors import CompileError
from tilewright.schedule.processor import host_features

Level = Literal["none", "fast", "full"]


@dataclass(frozen=True, slots=True)
class Target:
    """What machine code is made for: LLVM's names of triple and processor, and its feature string."""

    triple: str
    cpu: str
    features: str


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


@functools.cache
def host() -> Target:
    """This process's machine."""
    features = ",".join(f"{'+' if there else '-'}{name}" for name, there in sorted(host_features().items()))
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


def versions() -> str:
    """Versions of llvmlite and LLVM, as one text (part of every cache key)."""
    return f"llvmlite {llvmlite.__version__} LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


_lock = threading.Lock()
_own = threading.local()  # machines of this thread, by target: LLVM has them used by one thread at a time


def machine(target: Target | None = None) -> llvm.TargetMachine:
    """The LLVM target machine of `target` (default: this machine), one for each thread."""
    known = _own.__dict__.setdefault("machines", {})
    if target not in known:
        known[target] = _new_machine(target or host())
    return known[target]


def _new_machine(want: Target) -> llvm.TargetMachine:
    with _lock:
        _initialise()
    if want.triple != host().triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    try:
        return llvm.Target.from_triple(want.triple).create_target_machine(
            cpu=want.cpu, features=want.features, opt=3, reloc="pic", codemodel="small"
        )
    except RuntimeError as problem:
        raise CompileError(f"LLVM knows no target {want.triple!r}: {problem}", code="target") from problem


@contextmanager
def optimized(text: str, level: Level = "fast", target: Target | None = None) -> Iterator[llvm.ModuleRef]:
    """The module, parsed, verified and optimised, in a context of its own; both are gone afterwards. Text that is no
    valid module raises CompileError (code `ir`)."""
    tm = machine(target)
    with llvm.create_context() as context:
        try:
            module = llvm.parse_assembly(text, context)
        except RuntimeError as problem:
            raise _invalid(problem) from problem
        with module:
            try:
                module.name = "tilewright"
                module.triple = tm.triple
                module.data_layout = str(tm.target_data)
                module.verify()
            except RuntimeError as problem:
                raise _invalid(problem) from problem
            _run(module, tm, level)
            if not stores_masked_integers(text):
                yield module
                return
            with one_lane_stores_replaced(module, context) as replaced:
                yield replaced


def _invalid(problem: RuntimeError) -> CompileError:
    return CompileError(f"generated code is not valid LLVM IR: {problem}", code="ir")


def _run(module: llvm.ModuleRef, tm: llvm.TargetMachine, level: Level) -> None:
    """Run the passes of a level.

    `fast` is LLVM's scalar simplification of one function at O1 (SROA, early CSE, LICM, loop rotation, ...):
    for a packed GEMM nest with explicit vectors (132 kB of text) it takes 22 ms where the O3 pipeline takes
    88 ms, makes emission 20 ms cheaper and the machine code no slower (Zen 4, LLVM 22). It never vectorises:
    lanes are the schedule's business. `full` is the O3 module pipeline with the loop and SLP vectorisers, for
    nests left scalar.
    """
    if level == "none":
        return
    wide = level == "full"
    options = llvm.create_pipeline_tuning_options(speed_level=3 if wide else 1)
    options.loop_vectorization = options.slp_vectorization = wide
    builder = llvm.create_pass_builder(tm, options)
    if wide:
        builder.getModulePassManager().run(module, builder)
        return
    inline = llvm.create_new_module_pass_manager()
    inline.add_always_inliner_pass()
    inline.add_global_dead_code_eliminate_pass()
    inline.run(module, builder)
    simplify = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            run_passes(simplify, function, builder)


def optimize_and_emit(
    text: str, level: Level = "fast", target: Target | None = None, extra_symbols: Collection[str] = (),
    timings: dict[str, float] | None = None,
) -> bytes:  # fmt: skip
    """Object bytes of a module; symbols beyond libc, libm and `extra_symbols` are refused (code
    `symbols`). Seconds of both steps are put into `timings`. Threads may do so side by side."""
    start = time.perf_counter()
    with optimized(text, level, target) as module:
        middle = time.perf_counter()
        image = emitted(machine(target), module)
        done = time.perf_counter()
    if timings is not None:
        timings |= {"optimise": middle - start, "machine code": done - middle}
    check_symbols(image, extra_symbols)
    return image


def optimised_ir(text: str, level: Level = "fast", target: Target | None = None) -> str:
    """The module's IR after the passes of `level`."""
    with optimized(text, level, target) as module:
        return str(module)


def assembly(text: str, level: Level = "fast", target: Target | None = None) -> str:
    """Assembly text of what `optimize_and_emit` would emit, with LLVM's remarks on loops, blocks and spilled registers."""
    machine(target).set_asm_verbosity(True)
    with optimized(text, level, target) as module:
        return machine(target).emit_assembly(module)
