"""Parameters that are dicts and lists of others: names, calls on every path, and what is wrong in a call."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import ops
from tilewright.lang.errors import ArgumentError, DefinitionError

T, D, F = tw.sizes("T D F")
RNG = np.random.default_rng(0)
LAYER = {"wq": tw.f32[D, D], "mlp": {"up": tw.f32[D, F], "down": tw.f32[F, D]}}
CACHE = {"sum": tw.inout(tw.f32[D])}


@tw.kernel
def model(x: tw.f32[T, D], layers: [LAYER, LAYER], *, scale: tw.f32, cache: CACHE):
    i = tw.vars("i")
    for k, w in enumerate(layers):
        with tw.scope(f"layer{k}"):
            h = ops.relu(ops.linear(ops.linear(x, w["wq"]), w["mlp"]["up"]))
            x = ops.value(x) + ops.linear(h, w["mlp"]["down"]) * scale
    total = cache["sum"]
    total[i] += x[tw.rdom(t=T).t, i]
    return x


def arrays(t=3, d=4, f=5):
    def normal(*shape):
        return RNG.standard_normal(shape, dtype=np.float32)

    layers = [{"wq": normal(d, d), "mlp": {"up": normal(d, f), "down": normal(f, d)}} for _ in range(2)]
    return normal(t, d), layers, {"scale": 0.5, "cache": {"sum": np.zeros(d, np.float32)}}


def by_hand(x, layers, scale):
    for w in layers:
        x = x + np.maximum(x @ w["wq"] @ w["mlp"]["up"], 0) @ w["mlp"]["down"] * np.float32(scale)
    return x


FLAT = ["x", "layers_0_wq", "layers_0_mlp_up", "layers_0_mlp_down", "layers_1_wq", "layers_1_mlp_up",
        "layers_1_mlp_down", "scale", "cache_sum"]  # fmt: skip


def test_parts_are_parameters_with_flat_names():
    p = model.pipeline()
    assert [q.name for q in p.params] == FLAT
    again = tw.parse_kernel(str(model))
    assert again.pipeline().digest == p.digest
    x, layers, _ = arrays()
    flat = [x, *(a for w in layers for a in (w["wq"], *w["mlp"].values()))]
    wanted = by_hand(x, layers, 0.5)
    np.testing.assert_allclose(again(*flat, 0.5, np.zeros(4, np.float32)), wanted, rtol=1e-5)


@pytest.mark.parametrize("how", ["native", "reference", "compiled", "threads", "bound", "flat", "out", "strided"])
def test_calls_take_what_the_annotation_looks_like(how):
    x, layers, named = arrays()
    wanted = by_hand(x, layers, 0.5)
    if how == "native":
        got = model(x, layers, **named)
        got = model(x, tuple(layers), **named)
        named["cache"]["sum"] /= 2
    elif how == "reference":
        got = model.reference(x, layers, **named)
    elif how == "compiled":
        got = model.compile()(layers=layers, x=x, **named)
    elif how == "threads":
        got = model.compile()(x, layers, **named, threads=1)
    elif how == "bound":
        call = model.compile().bind(x, layers, **named)
        got = call()
    elif how == "flat":
        flat = {f"layers_{k}_{n}": a for k, w in enumerate(layers)
                for n, a in (("wq", w["wq"]), ("mlp_up", w["mlp"]["up"]), ("mlp_down", w["mlp"]["down"]))}  # fmt: skip
        got = model(x, **flat, **named)
    elif how == "out":
        got = np.empty_like(x)
        assert model(x, layers, **named, out=got) is got
    else:
        wide = np.zeros((4, 8), np.float32)
        layers[1]["wq"], wide[:, ::2] = wide[:, ::2], layers[1]["wq"]
        got = model(x, layers, **named)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    np.testing.assert_allclose(named["cache"]["sum"], wanted.sum(0), rtol=1e-5)


def test_simulation_and_account_take_them():
    x, layers, named = arrays()
    sizes = {"T": 3, "D": 4, "F": 5}
    done = model.simulate(machine="skylake-sp", sizes=sizes, inputs={"x": x, "layers": layers, **named})
    np.testing.assert_allclose(done.result, by_hand(x, layers, 0.5), rtol=1e-5)
    assert any("layers_0_wq" in str(m) for m in [model.account(machine="skylake-sp", sizes=sizes)])


def broken(change):
    x, layers, named = arrays()
    return change(x, layers, named) or (x, layers, named)


def drop(x, layers, named):
    del layers[1]["mlp"]["up"]


def more(x, layers, named):
    layers[0]["wk"] = layers[0]["wq"]


def short(x, layers, named):
    layers.pop()


def flat_array(x, layers, named):
    layers[1]["mlp"] = x


def misshapen(x, layers, named):
    layers[1]["mlp"]["up"] = np.zeros((3, 5), np.float32)


def wrong_type(x, layers, named):
    named["cache"]["sum"] = np.zeros(4)


def dict_for_array(x, layers, named):
    layers[0]["wq"] = {"a": x}


def by_position(x, layers, named):
    return x, layers, {"cache": named["cache"]}


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (drop, "missing", 'layers[1]["mlp"]["up"] is missing'),
        (more, "unknown", 'there is no layers[0]["wk"]'),
        (short, "missing", "layers has 1 parts and must have 2"),
        (flat_array, "nested", 'layers[1]["mlp"] must be a dict and is a ndarray'),
        (misshapen, "size-mismatch", 'layers_1_mlp_up is layers[1]["mlp"]["up"]'),
        (wrong_type, "dtype", 'cache["sum"]'),
        (dict_for_array, "not-array", 'layers[0]["wq"]'),
        (by_position, "missing", "scale is missing"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(change, code, words):
    x, layers, named = broken(change)
    for call in (model, model.reference, model.compile()):
        with pytest.raises(ArgumentError) as e:
            call(x, layers, **named)
        assert e.value.code == f"argument.{code}"
        assert words in e.value.message


def test_given_twice():
    x, layers, named = arrays()
    with pytest.raises(ArgumentError) as e:
        model(x, layers=layers, layers_0_wq=layers[0]["wq"], **named)
    assert e.value.code == "argument.duplicate"


@pytest.mark.parametrize(
    ("annotation", "code"),
    [
        ({"a.b": tw.f32[T]}, "annotation"),
        ({1: tw.f32[T], "a": {2.5: tw.f32[T]}}, "annotation"),
        ({"a": {"b": tw.f32[T]}, "a_b": tw.f32[T]}, "name-twice"),
        ({"a": tw.f32[T], "b": 3}, "annotation"),
    ],
)
def test_annotations_that_make_no_names(annotation, code):
    def wrong(w):
        return ops.relu(w["a"])

    wrong.__annotations__ = {"w": annotation}
    with pytest.raises(DefinitionError) as e:
        tw.kernel(wrong)
    assert e.value.code == f"definition.{code}"
    assert e.value.where[0].file == __file__


def test_a_part_and_a_parameter_of_one_name():
    weights = {"a": tw.f32[T]}

    def wrong(w: weights, w_a: tw.f32[T]):
        return ops.relu(w_a)

    with pytest.raises(DefinitionError) as e:
        tw.kernel(wrong)
    assert e.value.code == "definition.name-twice"


def test_type_parameters_are_found_inside():
    t = tw.dtype_var("t", tw.f32, tw.f64)
    weights = {"a": [t[T]]}

    @tw.kernel
    def scaled(w: weights):
        return ops.value(w["a"][0]) * 2.0

    for dtype in (np.float32, np.float64):
        assert scaled({"a": [np.ones(3, dtype)]}).dtype == dtype


def test_an_explicit_pipeline_has_them_too():
    p = tw.Pipeline("two", x=tw.f32[T, D], w={"up": tw.f32[D, F], "bias": [tw.f32[F]]})
    k = p.returns(ops.linear(p.x, p.w["up"], p.w["bias"][0]))
    x, w = np.ones((2, 3), np.float32), {"up": np.ones((3, 4), np.float32), "bias": [np.ones(4, np.float32)]}
    np.testing.assert_array_equal(k(x, w), np.full((2, 4), 4, np.float32))
    with pytest.raises(DefinitionError):
        tw.Pipeline("wrong", w={"a": 3})
