"""A small transformer, planned as a whole: it reads a prompt, then writes token by token.

The model is one kernel of some two hundred Funcs, all of them plain algorithms (`tw.ops`). Two plans are made of it: one
for a prompt (`prefill`: many tokens at once), one for what follows (`decode`: one token, all of what came before in
caches of keys and values, which each call appends to in place). A call gets the part of the caches that is in use: their
length grows from token to token, and nothing is compiled again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special

import tilewright as tw
from tilewright import ops

T, N = tw.sizes("T N")  # tokens of a call, and tokens with those before


class Shape(NamedTuple):
    """A model's sizes; a layer's hidden width is four times its width."""

    layers: int = 6
    width: int = 384
    heads: int = 12
    vocabulary: int = 8192
    places: int = 1024


SHAPE = Shape()
Layer = Mapping[str, Any]


def specs(s: Shape) -> dict[str, Any]:
    """The weights, as the kernel's annotation names them."""
    d = s.width
    one = {
        "norm1": {"scale": tw.f32[d], "shift": tw.f32[d]}, "qkv": tw.f32[d, 3 * d], "out": tw.f32[d, d],
        "norm2": {"scale": tw.f32[d], "shift": tw.f32[d]},
        "up": tw.f32[d, 4 * d], "up_bias": tw.f32[4 * d], "down": tw.f32[4 * d, d], "down_bias": tw.f32[d],
    }  # fmt: skip
    return {
        "table": tw.f32[s.vocabulary, d], "places": tw.f32[s.places, d], "layers": [one] * s.layers,
        "norm": {"scale": tw.f32[d], "shift": tw.f32[d]}, "head": tw.f32[d, s.vocabulary],
    }  # fmt: skip


# The model ----------------------------------------------------------------------------------------------------------


def transformer(s: Shape) -> tw.Kernel:
    """tokens: (T,), of which `past` came before -> (1, vocabulary): what follows the last of them."""
    weights, cache = specs(s), tw.inout(tw.f32[1, s.heads, N, s.width // s.heads])
    caches = [{"keys": cache, "values": cache}] * s.layers

    @tw.kernel
    def transformer(tokens: tw.i64[T], past: tw.i64, w: weights, c: caches):  # type: ignore[valid-type]
        t, d = tw.vars("t d")
        place = tw.func("place")
        place[t, d] = w["places"][tw.clamp(past + t, 0, s.places - 1), d]
        x = ops.gather(w["table"], tokens) + ops.Value(place, (T, s.width))
        for k in range(s.layers):
            with tw.scope(f"layer{k}"):
                x = layer(x, w["layers"][k], c[k], past, s.heads)
        last = ops.layer_norm(ops.slice(x, (T - 1, T)), *w["norm"].values())
        return ops.linear(last, w["head"])

    return transformer


def layer(x: ops.Value, w: Layer, c: Layer, past: Any, heads: int) -> ops.Value:
    h = ops.layer_norm(x, *w["norm1"].values())
    parts = ops.split(ops.linear(h, w["qkv"]), 3)
    query, key, value = (ops.transpose(ops.reshape(t, (1, T, heads, -1)), (0, 2, 1, 3)) for t in parts)
    keys, values = ops.append(c["keys"], key, past), ops.append(c["values"], value, past)
    seen = ops.transpose(ops.attention(query, keys, values, causal=True, past=past), (0, 2, 1, 3))
    x = x + ops.linear(ops.reshape(seen, x.shape), w["out"])
    h = ops.layer_norm(x, *w["norm2"].values())
    return x + ops.linear(ops.gelu(ops.linear(h, w["up"], w["up_bias"])), w["down"], w["down_bias"])


# Planned and run ----------------------------------------------------------------------------------------------------


class Generator:
    """The model with weights, caches, and a program for each phase."""

    def __init__(self, s: Shape, weights: Layer, prompt: int = 128, threads: int | None = None):
        """`prompt`: about how long prompts are; they may have any length."""
        self.shape, self.threads, self.past = s, threads, 0
        kernel, about = transformer(s), min(prompt, s.places // 2)
        self.plans = {
            "prefill": tw.plan(
                kernel, phase="prefill", sizes={"T": about, "N": about}, scalars={"past": 0}, weights=["w"], tokens="T"
            ),
            "decode": tw.plan(
                kernel, phase="decode", sizes={"T": 1, "N": 2 * about}, scalars={"past": 2 * about - 1}, weights=["w"],
                tokens="T",
            ),
        }  # fmt: skip
        self.programs = {phase: plan.compile().with_weights(w=weights) for phase, plan in self.plans.items()}
        shape = (1, s.heads, s.places, s.width // s.heads)
        self.caches = [{n: np.zeros(shape, np.float32) for n in ("keys", "values")} for _ in range(s.layers)]

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """What follows these tokens, which come after all before."""
        now = self.past + len(tokens)
        if now > self.shape.places:
            raise ValueError(f"{now} tokens are more than there are places for ({self.shape.places})")
        run = self.programs["decode" if len(tokens) == 1 else "prefill"]
        used = [{n: a[:, :, :now] for n, a in c.items()} for c in self.caches]
        out = run(tokens, self.past, used, threads=self.threads)
        self.past = now
        return out[0]

    def generate(self, prompt: np.ndarray, count: int) -> list[int]:
        """`count` tokens, each the likeliest one."""
        self.past, found = 0, []
        tokens = np.asarray(prompt, np.int64)
        for _ in range(count):
            found.append(int(self.logits(tokens).argmax()))
            tokens = np.array(found[-1:])
        return found


def make_weights(s: Shape, seed: int = 0) -> dict[str, Any]:
    """Weights of a model that has learned nothing, of usual size."""
    rng = np.random.default_rng(seed)

    def made(spec: Any, name: str = "") -> Any:
        if isinstance(spec, dict):
            return {n: made(x, n) for n, x in spec.items()}
        if isinstance(spec, list):
            return [made(x) for x in spec]
        shape = tuple(spec.axes)
        if len(shape) == 1:
            return rng.normal(name == "scale", 0.02, shape).astype(np.float32)
        return rng.normal(0, 1 if name in ("table", "places") else shape[0] ** -0.5, shape).astype(np.float32)

    return made(specs(s))


def independent(s: Shape, w: Layer, tokens: np.ndarray) -> np.ndarray:
    """What follows all of `tokens`, in f64 and without caches."""
    n, d = len(tokens), s.width

    def norm(x: np.ndarray, p: Layer) -> np.ndarray:
        away = x - x.mean(1, keepdims=True)
        return away / np.sqrt((away**2).mean(1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]

    x = np.float64(w["table"][tokens]) + w["places"][:n]
    for p in w["layers"]:
        parts = np.split(norm(x, p["norm1"]) @ p["qkv"], 3, axis=1)
        q, k, v = (t.reshape(n, s.heads, -1).transpose(1, 0, 2) for t in parts)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(d // s.heads)
        scores[:, ~np.tri(n, dtype=bool)] = -np.inf
        x = x + (special.softmax(scores, axis=2) @ v).transpose(1, 0, 2).reshape(n, d) @ p["out"]
        h = norm(x, p["norm2"]) @ p["up"] + p["up_bias"]
        x = x + h * special.ndtr(h) @ p["down"] + p["down_bias"]
    return norm(x[-1:], w["norm"])[0] @ w["head"]


def check(s: Shape = SHAPE, prompt: int = 128, count: int = 8) -> list[int]:
    """Every token's logits are those of the computation without caches; the tokens."""
    weights = make_weights(s)
    model = Generator(s, weights, prompt)
    tokens = list(np.random.default_rng(1).integers(0, s.vocabulary, prompt))
    new = np.array(tokens)
    for _ in range(count):
        got, right = model.logits(new), independent(s, weights, np.array(tokens))
        np.testing.assert_allclose(got, right, atol=2e-4 * np.abs(right).max())
        new = np.array([got.argmax()])
        tokens.append(int(new[0]))
    assert tokens[prompt:] == model.generate(np.array(tokens[:prompt]), count)
    return tokens[prompt:]


if __name__ == "__main__":
    print(check())
