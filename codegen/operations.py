"""What arithmetic a definition does, as the machine's file speaks of it: operations by class and element type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.lang.ir import COMPARISONS, Node, postorder

# class of an operation -> the operations of it; what is no arithmetic (loads, casts, selections, indices) has no class
CLASSES: dict[str, tuple[str, ...]] = {
    "add": ("add", "sub", "neg", "abs", "floor", "ceil", "round", "trunc"),
    "mul": ("mul",),
    "fma": ("fma",),
    "div": ("div", "floordiv", "mod"),
    "sqrt": ("sqrt",),
    "compare": ("min", "max", *sorted(COMPARISONS)),
    "bit": ("and", "or", "xor", "shl", "shr", "not"),
    "special": ("call", "call_extern"),
}
CLASS_OF = {op: name for name, ops in CLASSES.items() for op in ops}

Operations = tuple[tuple[str, str, int], ...]  # (class, element type, how many)


def operations(values: Sequence[Node]) -> Operations:
    """The arithmetic of stored values, each node once; mathematical functions count as one (`special`)."""
    found: Counter[tuple[str, str]] = Counter()
    for n in postorder(values):
        kind = CLASS_OF.get(n.op)
        t = n.args[0].dtype if n.op in COMPARISONS else n.dtype
        if kind is not None and not t.is_bool and t.name != "index":
            found[kind, t.name] += 1
    return tuple((kind, name, count) for (kind, name), count in found.items())
