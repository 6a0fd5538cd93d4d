"""Parameters that are dicts or lists of others, such as the weights of a model: flat names, and the arguments of a call.

`w: {"wq": tw.f32[D, D], "mlp": {"up": tw.f32[D, F]}}` makes the parameters `w_wq` and `w_mlp_up`; of a list, `w_0_wq`.
Everything but calls knows these alone: schedules, texts, reports. A call gives what the annotation looks like, or each
array by its flat name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.lang.errors import ArgumentError, Location, user_location
from tilewright.lang.symbols import bad

if TYPE_CHECKING:
    from tilewright.lang.pipeline import Pipeline

Path = tuple[str | int, ...]  # the parameter's name, then keys and places
# A parameter: its flat name, or a dict, list or tuple of such.
Names = Any

_PLAIN = frozenset((dict, list, tuple))
_KEY = re.compile(r"\w+\Z", re.ASCII)


def is_nested(x: Any) -> bool:
    """Whether something has parts: a dict, a list or a tuple."""
    return isinstance(x, (Mapping, list, tuple))


def items(x: Any) -> Iterator[tuple[str | int, Any]]:
    """The parts of something nested, by key or place."""
    yield from x.items() if isinstance(x, Mapping) else enumerate(x)


def mapped(f: Callable[[Path, Any], Any], x: Any, path: Path) -> Any:
    """The same structure with `f(path, leaf)` in place of its leaves."""
    if isinstance(x, Mapping):
        return {k: mapped(f, v, (*path, k)) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [mapped(f, v, (*path, k)) for k, v in enumerate(x)]
    return f(path, x)


def leaves(x: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The leaves of a structure in its order."""
    if is_nested(x):
        for k, v in items(x):
            yield from leaves(v, (*path, k))
    else:
        yield path, x


def flat_name(path: Path) -> str:
    """The name of a parameter that stands at a path: `w_mlp_up`."""
    return "_".join(map(str, path))


def shown(path: Path) -> str:
    """A path as it is written: `w["mlp"]["up"]`."""
    return str(path[0]) + "".join(f"[{k}]" if isinstance(k, int) else f'["{k}"]' for k in path[1:])


def check_keys(name: str, spec: Any, where: Location | None) -> None:
    """Raise DefinitionError `definition.annotation` for keys that make no names."""
    for path, _ in leaves(spec, (name,)):
        for k in path[1:]:
            if not isinstance(k, int) and not (isinstance(k, str) and _KEY.match(k)):
                raise bad(f"{k!r} is a key in the annotation of {name}", "annotation",
                          "keys become parts of names: letters, digits and _", where)  # fmt: skip


def check_apart(paths: Sequence[Path], where: Location | None) -> None:
    """Raise DefinitionError `definition.name-twice` where two paths have one flat name."""
    seen: dict[str, Path] = {}
    for path in paths:
        other = seen.setdefault(flat_name(path), path)
        if other is not path:
            raise bad(f"{shown(other)} and {shown(path)} are both called {flat_name(path)}", "name-twice",
                      "rename a key", where)  # fmt: skip


# Calls ------------------------------------------------------------------------------------------------------------


def flat_arguments(
    p: Pipeline, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments of a call by the flat parameters of a pipeline.

    Raises ArgumentError for what an argument lacks (`argument.missing`), has besides (`argument.unknown`), or is
    instead of a dict or a list (`argument.nested`).
    """
    if not p.signature:
        return args, kwargs
    names = [n for n, s in p.signature if type(s) is not str]
    given = any(
        type(s) is not str and (type(a) in _PLAIN or isinstance(a, Mapping))
        for (_, s), a in zip(p.signature, args, strict=False)
    )
    if not given and not any(n in kwargs for n in names):
        return args, kwargs
    if len(args) > len(p.signature):
        takes = ", ".join(n for n, _ in p.signature)
        raise _refused(p, "count", f"{len(args)} arguments are given", f"it takes {takes}")
    flat: list[Any] = []
    for (name, structure), a in zip(p.signature, args, strict=False):
        _collect(p, structure, a, (name,), flat)
    return flat, flat_named(p, kwargs) if kwargs else kwargs


def flat_named(p: Pipeline, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name as `flat_arguments` has them."""
    structures = {n: s for n, s in p.signature if type(s) is not str}
    out: dict[str, Any] = {}
    for name, value in given.items():
        parts = {name: value}
        if name in structures:
            found: list[Any] = []
            _collect(p, structures[name], value, (name,), found)
            parts = dict(zip((n for _, n in leaves(structures[name], (name,))), found, strict=True))
        for n in parts.keys() & out.keys():
            raise _refused(p, "duplicate", f"{n} is given twice", "give it in its dict or by its flat name")
        out.update(parts)
    return out


def _collect(p: Pipeline, names: Names, given: Any, path: Path, out: list[Any]) -> None:
    """Append the leaves of what is given of a parameter, in the order of its flat names."""
    kind = type(names)
    if kind is str:
        if type(given) in _PLAIN:
            raise _refused(p, "not-array", f"{shown(path)} must be an array or a number and is {_kind(given)}",
                           "convert it: np.asarray(x)")  # fmt: skip
        out.append(given)
        return
    if kind is dict:
        if type(given) is not dict and not isinstance(given, Mapping):
            raise _refused(p, "nested", f"{shown(path)} must be a dict and is {_kind(given)}", _keys(names))
        if given.keys() != names.keys():
            _check_keys(p, names, given, path)
        for k, n in names.items():
            _collect(p, n, given[k], (*path, k), out)
        return
    if not isinstance(given, (list, tuple)):
        raise _refused(p, "nested", f"{shown(path)} must be a list and is {_kind(given)}",
                       f"of {len(names)} parts")  # fmt: skip
    if len(given) != len(names):
        code = "missing" if len(given) < len(names) else "unknown"
        raise _refused(p, code, f"{shown(path)} has {len(given)} parts and must have {len(names)}", "one each")
    for k, n in enumerate(names):
        _collect(p, n, given[k], (*path, k), out)


def _check_keys(p: Pipeline, names: Mapping[str, Names], given: Mapping[str, Any], path: Path) -> None:
    missing = [shown((*path, k)) for k in names if k not in given]
    if missing:
        raise _refused(p, "missing", f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
                       _keys(names))  # fmt: skip
    more = [k for k in given if k not in names]
    if more:
        known = ", ".join(f"{shown(path)}[{k!r}]".replace("'", '"') for k in more)
        raise _refused(p, "unknown", f"there is no {known}", _keys(names))


def _keys(names: Mapping[str, Names]) -> str:
    return f"its keys: {', '.join(names)}"


def _kind(x: Any) -> str:
    return f"a {type(x).__name__}"


def _refused(p: Pipeline, code: str, message: str, hint: str) -> ArgumentError:
    return ArgumentError(
        f"{p.name}: {message}", code=f"argument.{code}", where=(user_location(), p.location), hint=hint
    )


def left_of(signature: tuple[tuple[str, Names], ...], gone: Container[str]) -> tuple[tuple[str, Names], ...]:
    """A signature without some flat parameters: a dict loses the keys that have nothing left, a list keeps its length."""

    def left(names: Names) -> Names:
        if isinstance(names, Mapping):
            return {k: x for k, v in names.items() if (x := left(v)) is not None} or None
        if isinstance(names, list):
            kept = [left(v) for v in names]
            return None if all(v is None for v in kept) else [{} if v is None else v for v in kept]
        return None if names in gone else names

    return tuple((n, x) for n, v in signature if (x := left(v)) is not None)


def with_paths(p: Pipeline, message: str) -> str:
    """A message that names flat parameters, with where the caller has them."""
    if not p.signature:
        return message
    known = {leaf: path for n, s in p.signature for path, leaf in leaves(s, (n,)) if len(path) > 1}
    found = dict.fromkeys(w for w in re.findall(r"\w+", message) if w in known)
    told = ", ".join(f"{n} is {shown(known[n])}" for n in found)
    return f"{message} ({told})" if told else message


__all__ = [
    "Names", "Path", "check_apart", "check_keys", "flat_arguments", "flat_name", "flat_named", "is_nested", "leaves",
    "left_of", "mapped", "shown", "with_paths",
]  # fmt: skip
