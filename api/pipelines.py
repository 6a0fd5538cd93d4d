"""An explicit pipeline: outputs and parameters without a decorated function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.kernels import Kernel, from_pipeline
from tilewright.lang.func import InoutFunc
from tilewright.lang.pipeline import ScalarParam, make_pipeline
from tilewright.lang.symbols import bad, to_index
from tilewright.lang.tensors import Array
from tilewright.lang.types import ArraySpec, DType


class Pipeline:
    """`p = tw.Pipeline("name", A=tw.f32[M, K], alpha=tw.f32)` makes parameters (`p.A`, `p["alpha"]`);
    `p.returns(C[:M, :N])` gives the kernel."""

    def __init__(self, name: str, /, **params: Any):
        from tilewright.lang.expr import wrap

        self._name = name
        self._params: list[Array | ScalarParam | InoutFunc] = []
        self._handles: dict[str, Any] = {}
        for key, spec in params.items():
            if isinstance(spec, ArraySpec):
                if not isinstance(spec.dtype, DType):
                    raise bad(f"{key} has a type parameter", "generic", "an explicit pipeline needs concrete types")
                axes = tuple(to_index(a, f"an extent of {key}") for a in spec.axes)
                array = Array(key, spec.dtype, axes)
                made: Any = InoutFunc(array) if spec.inout else array
                self._handles[key] = made
            elif isinstance(spec, DType):
                made = ScalarParam(key, spec)
                self._handles[key] = wrap(made.node)
            else:
                raise bad(
                    f"{key} has no tilewright type", "annotation", "tw.f32[M, N] for an array, tw.f32 for a scalar"
                )
            self._params.append(made)

    def __getattr__(self, name: str) -> Any:
        handles: Mapping[str, Any] = self.__dict__.get("_handles", {})
        if name in handles:
            return handles[name]
        raise AttributeError(f"this pipeline has the parameters {', '.join(handles)}; there is no {name!r}")

    def __getitem__(self, name: str) -> Any:
        return self._handles[name]

    def returns(self, outputs: Any, mode: str = "contract") -> Kernel:
        """Freeze it: `outputs` as a kernel returns them."""
        return from_pipeline(make_pipeline(outputs, self._params, self._name), mode)
