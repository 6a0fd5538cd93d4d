"""Signatures are plain data."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tilewright.codegen.signature import ArrayParam, ScalarParam, Signature, contiguous

ROLES = ["in", "inout", "const", "out"]
DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16"),
]

EXTENTS = st.one_of(
    st.tuples(st.just("size"), st.integers(0, 3)),
    st.tuples(st.just("const"), st.integers(0, 9)),
    st.tuples(
        st.just("linear"),
        st.integers(-3, 3),
        st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3))).map(tuple),
    ),
    st.tuples(st.just("expr"), st.lists(st.sampled_from([("size", 0), ("const", 3), ("add",)])).map(tuple)),
)


@st.composite
def signatures(draw: Any) -> Signature:
    arrays = []
    for number in range(draw(st.integers(0, 4))):
        axes = tuple(draw(st.lists(EXTENTS, max_size=3)))
        strides = tuple(draw(st.sampled_from(["any", "unit", "packed"])) for _ in axes)
        arrays.append(
            ArrayParam(f"a{number}", draw(st.sampled_from(DTYPES)), draw(st.sampled_from(ROLES)), axes, strides)
        )
    scalars = tuple(ScalarParam(f"s{n}", draw(st.sampled_from(DTYPES))) for n in range(draw(st.integers(0, 3))))
    names = [a.name for a in arrays if a.role in ("in", "inout")] + [s.name for s in scalars]
    structure = draw(st.sampled_from(["none", "single", "tuple", "other"]))
    given = tuple(draw(st.lists(st.sampled_from("ABCD"), unique=True)))
    return Signature(
        "f", ("A", "B", "C", "D"), tuple(arrays), scalars, tuple(draw(st.permutations(names))), (), structure, given
    )


@given(signatures())
def test_signatures_survive_json(signature: Signature) -> None:
    assert Signature.from_json(signature.to_json()) == signature


def test_contiguous_arrays() -> None:
    assert contiguous(0) == ()
    assert contiguous(1) == ("unit",)
    assert contiguous(3) == ("packed", "packed", "unit")


def test_outputs_are_found_by_role() -> None:
    arrays = tuple(ArrayParam(role, "int8", role, (), ()) for role in ("in", "out", "inout"))
    assert [array.name for array in Signature("f", (), arrays, (), ()).outputs] == ["out"]
