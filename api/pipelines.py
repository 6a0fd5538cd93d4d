"""An explicit pipeline: outputs and parameters without a decorated function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.kernels import Kernel, from_pipeline
from tilewright.lang.errors import user_location
from tilewright.lang.func import InoutFunc
from tilewright.lang.nested import check_apart, check_keys, is_nested, leaves, shown
from tilewright.lang.pipeline import ScalarParam, make_pipeline
from tilewright.lang.symbols import bad
from tilewright.lang.tensors import Array
from tilewright.lang.trace import declared, named
from tilewright.lang.types import ArraySpec, DType, DTypeVar


class Pipeline:
    """`p = tw.Pipeline("name", A=tw.f32[M, K], alpha=tw.f32)` makes parameters (`p.A`, `p["alpha"]`);
    `p.returns(C[:M, :N])` gives the kernel."""

    def __init__(self, name: str, /, **params: Any):
        self._name = name
        self._params: list[Array | ScalarParam | InoutFunc] = []
        self._handles: dict[str, Any] = {}
        for key, spec in params.items():
            check_keys(key, spec, user_location())
            for path, leaf in leaves(spec, (key,)):
                if isinstance(leaf, DTypeVar) or (isinstance(leaf, ArraySpec) and isinstance(leaf.dtype, DTypeVar)):
                    raise bad(f"{shown(path)} has a type parameter", "generic",
                              "an explicit pipeline needs concrete types")  # fmt: skip
                if not isinstance(leaf, (ArraySpec, DType)):
                    raise bad(f"{shown(path)} has no tilewright type", "annotation",
                              "tw.f32[M, N] for an array, tw.f32 for a scalar, a dict or list of such")  # fmt: skip
            self._handles[key] = declared(key, spec, self._params)
        check_apart([path for n, s in params.items() for path, _ in leaves(s, (n,))], user_location())
        nested = any(map(is_nested, params.values()))
        self._signature = tuple(named(n, s) for n, s in params.items()) if nested else ()

    def __getattr__(self, name: str) -> Any:
        handles: Mapping[str, Any] = self.__dict__.get("_handles", {})
        if name in handles:
            return handles[name]
        raise AttributeError(f"this pipeline has the parameters {', '.join(handles)}; there is no {name!r}")

    def __getitem__(self, name: str) -> Any:
        return self._handles[name]

    def returns(self, outputs: Any, mode: str = "contract") -> Kernel:
        """Freeze it: `outputs` as a kernel returns them."""
        return from_pipeline(make_pipeline(outputs, self._params, self._name, signature=self._signature), mode)
