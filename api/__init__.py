"""tilewright: a tensor computation and the way it runs are two separate things.

The algorithm says what every element is, the schedule how it is computed; a schedule can never change a result.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilewright import machines
from tilewright.codegen.prepack import Packed
from tilewright.kernels import Kernel, from_pipeline, kernel
from tilewright.lang.boundary import constant_exterior, reflect, reflect_interior, repeat_edge, wrap_around
from tilewright.lang.errors import (
    ArgumentError,
    AssumptionError,
    BoundsError,
    CompileError,
    CoverageError,
    DefinitionError,
    ExternStageError,
    ParseError,
    ScheduleError,
    SymbolicUseError,
    TilewrightError,
    TypeRuleError,
    UnusedWarning,
)
from tilewright.lang.expr import (
    Expr,
    assume,
    bitcast,
    cast,
    ceil,
    clamp,
    floor,
    inside,
    maximum,
    minimum,
    round,
    select,
    sqrt,
    trunc,
)
from tilewright.lang.expr import abs_ as abs
from tilewright.lang.extern import Extern, extern
from tilewright.lang.extern_stage import ExternStage, extern_stage
from tilewright.lang.func import Func, func
from tilewright.lang.math import (
    atan2,
    cos,
    erf,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    log2,
    pow,
    rsqrt,
    sigmoid,
    sin,
    tan,
    tanh,
)
from tilewright.lang.reduce import all_ as all
from tilewright.lang.reduce import any_ as any
from tilewright.lang.reduce import argmax, argmin
from tilewright.lang.reduce import max_ as max
from tilewright.lang.reduce import min_ as min
from tilewright.lang.reduce import prod_ as prod
from tilewright.lang.reduce import sum_ as sum
from tilewright.lang.symbols import RDom, Var, rdom, scope, sizes, vars
from tilewright.lang.tensors import const
from tilewright.lang.trace import inout
from tilewright.lang.types import (
    bf16,
    bool_,
    dtype_var,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from tilewright.pipelines import Pipeline
from tilewright.schedule import idioms
from tilewright.schedule.causes import (
    AddressError,
    DependenceError,
    ExtentError,
    LoopError,
    OnlineError,
    OrderError,
    PlaceError,
    RaceError,
    SharingError,
    StorageError,
    TailError,
    WordingError,
)
from tilewright.schedule.registers import Registers, host_registers
from tilewright.texts import parse_kernel, parse_schedule, read, write

if TYPE_CHECKING:
    from tilewright.autotune import frozen, records
    from tilewright.dispatching import dispatch
    from tilewright.lang import operators as ops
    from tilewright.plans import plan
    from tilewright.tuning import tune
    from tilewright.views.compare import compare
    from tilewright.views.explain import explain
    from tilewright.views.sweep import sweep

__version__ = "0.1.0"
# imported when they are asked for: they double the time of an import
_LATER = {
    "compare": "views.compare", "dispatch": "dispatching", "explain": "views.explain", "plan": "plans",
    "sweep": "views.sweep",
    "tune": "tuning",
}  # fmt: skip
_ROOMS = {"frozen": "autotune.frozen", "ops": "lang.operators", "records": "autotune.records"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"tilewright.{_ROOMS[name]}")
    if name in _LATER:
        return getattr(import_module(f"tilewright.{_LATER[name]}"), name)
    raise AttributeError(f"module 'tilewright' has no attribute {name!r}")


__all__ = [
    "AddressError",
    "ArgumentError",
    "AssumptionError",
    "BoundsError",
    "CompileError",
    "CoverageError",
    "DefinitionError",
    "DependenceError",
    "Expr",
    "ExtentError",
    "Extern",
    "ExternStage",
    "ExternStageError",
    "Func",
    "Kernel",
    "LoopError",
    "OnlineError",
    "OrderError",
    "Packed",
    "ParseError",
    "Pipeline",
    "PlaceError",
    "RDom",
    "RaceError",
    "Registers",
    "ScheduleError",
    "SharingError",
    "StorageError",
    "SymbolicUseError",
    "TailError",
    "TilewrightError",
    "TypeRuleError",
    "UnusedWarning",
    "Var",
    "WordingError",
    "abs",
    "all",
    "any",
    "argmax",
    "argmin",
    "assume",
    "atan2",
    "bf16",
    "bitcast",
    "bool_",
    "cast",
    "ceil",
    "clamp",
    "compare",
    "const",
    "constant_exterior",
    "cos",
    "dispatch",
    "dtype_var",
    "erf",
    "exp",
    "exp2",
    "explain",
    "expm1",
    "extern",
    "extern_stage",
    "f16",
    "f32",
    "f64",
    "floor",
    "from_pipeline",
    "frozen",
    "func",
    "host_registers",
    "i8",
    "i16",
    "i32",
    "i64",
    "idioms",
    "inout",
    "inside",
    "kernel",
    "log",
    "log1p",
    "log2",
    "machines",
    "max",
    "maximum",
    "min",
    "minimum",
    "ops",
    "parse_kernel",
    "parse_schedule",
    "plan",
    "pow",
    "prod",
    "rdom",
    "read",
    "records",
    "reflect",
    "reflect_interior",
    "repeat_edge",
    "round",
    "rsqrt",
    "scope",
    "select",
    "sigmoid",
    "sin",
    "sizes",
    "sqrt",
    "sum",
    "sweep",
    "tan",
    "tanh",
    "trunc",
    "tune",
    "u8",
    "u16",
    "u32",
    "u64",
    "vars",
    "wrap_around",
    "write",
]  # fmt: skip
