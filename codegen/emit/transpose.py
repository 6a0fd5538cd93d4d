"""Tiles whose loads and stores run along different axes: whole vectors and a transpose instead of gathers.

The pattern is an unrolled loop u around a vectorize loop v with nothing but stores in it:

    for u in 0..n unroll
      for v in 0..m vectorize
        dst[... + v] = f(src[... + u + S*v])

For one u the load gathers m elements. All u together read m contiguous pieces of n elements; these are loaded and
transposed in registers, and every u finds its vector made. In the mirrored case, a store to dst[... + u + S*v], the
vectors of all u are computed first, transposed, and written as m contiguous pieces.

Nothing but the elements of the pattern is touched. Loads come before the stores of the tile, so what is read must not
be written there. Stores change their order among themselves; that is harmless because they go to different places:
neighbouring v are a row apart or more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tilewright.codegen.emit import convert
from tilewright.codegen.emit.builder import memory_type, shaped
from tilewright.codegen.emit.index import Access, access, alignment, constant_step, lane_addresses, resolve
from tilewright.codegen.emit.network import interleaved, transposed
from tilewright.codegen.emit.region import Lanes, Region, bind, trip_count
from tilewright.codegen.emit.values import lanes_of, prepare
from tilewright.codegen.loops import VECTORIZE, Block, Buffer, For, Store
from tilewright.lang.ir import Node, integer, is_const, postorder, substitute
from tilewright.lang.simplify import Linear
from tilewright.lang.types import DType

_MOST = 64  # bytes of a piece


@dataclass(frozen=True, slots=True)
class Tile:
    """A pattern that was found: the two loops, the loads to transpose, and the store if it is the one."""

    var: Node
    start: Linear
    trips: int
    lanes: Lanes
    loads: tuple[Node, ...]
    store: Store | None

    def pieces(self) -> Iterator[tuple[int, int]]:
        """(first, count) of the blocks of u, powers of two."""
        types = [n.attr[0].dtype for n in self.loads] + ([self.store.targets[0][0].dtype] if self.store else [])
        most = max(2, _MOST // max(t.bytes for t in types))
        k = 0
        while k < self.trips:
            count = min(most, 1 << ((self.trips - k).bit_length() - 1))
            yield k, count
            k += count


def find_tile(r: Region, s: For, trips: int | None) -> Tile | None:
    """The pattern in an unrolled loop, if it is one. Instrumented kernels count as the program says."""
    v = s.body
    if trips is None or trips < 2 or r.lanes is not None or r.shared.instrument:
        return None
    if not isinstance(v, For) or v.mode != VECTORIZE or not is_const(v.start, 0):
        return None
    m = trip_count(v) or 0
    stores = v.body.statements if isinstance(v.body, Block) else (v.body,)
    if m < 2 or not all(isinstance(t, Store) for t in stores):
        return None
    lanes, written, start = Lanes(v.var, m), r.shared.writes(s), resolve(r, s.start)
    values = [x for t in stores if isinstance(t, Store) for x in (*t.values, *(i for _, i in t.targets))]
    read = [n for n in postorder(values) if n.op in ("load", "load_if")]
    found = tuple(
        n for n in read
        if n.op == "load" and n.attr[0] not in written and _crosswise(r, n.args[0], s.var, start, lanes, trips)
    )  # fmt: skip
    only = stores[0] if len(stores) == 1 else None
    store = None
    if isinstance(only, Store) and len(only.targets) == 1 and not any(n.attr[0] in written for n in read):
        store = only if _crosswise(r, only.targets[0][1], s.var, start, lanes, trips) else None
    if not found and store is None:
        return None
    return Tile(s.var, start, trips, lanes, found, store)


def _crosswise(r: Region, i: Node, u: Node, start: Linear, lanes: Lanes, trips: int) -> bool:
    """Whether an index runs along u one by one, and along the lanes in one stride of a row or more."""
    if not _one_by_one(r, i, u, start, trips):
        return False
    with r.lane_scope(lanes):
        a = access(r, i)
    if a.uniform or a.dynamic:
        return False
    assert a.offsets is not None
    d = constant_step(Access((), 0, a.offsets))
    return d is not None and (bool(a.strides) or abs(d) >= trips)


def _one_by_one(r: Region, i: Node, u: Node, start: Linear, trips: int) -> bool:
    """Two loops fused to u are one by one where u // 4 * 4 + u % 4 is what they come to: its values tell."""
    coefs, _ = resolve(r, i)
    inside = {a: c for a, c in coefs.items() if u in r.shared.info(a).vars}
    if inside.keys() == {u}:
        return inside[u] == 1
    if not inside or start[0] or any(len(r.shared.info(a).vars) > 1 or r.shared.info(a).buffers for a in inside):
        return False
    values = [substitute(list(inside), {u: integer(start[1] + k)}) for k in range(trips)]
    if any(v.op != "const" for row in values for v in row):
        return False
    sums = [sum(c * v.attr for c, v in zip(inside.values(), row, strict=True)) for row in values]
    return all(x == sums[0] + k for k, x in enumerate(sums))


@contextmanager
def made(r: Region, tile: Tile, first: int, count: int) -> Iterator[None]:
    """The loads of a block of u are known as vectors inside."""
    with r.scope():
        if count > 1:
            for n in tile.loads:
                _load(r, tile, n, first, count)
        yield


def _load(r: Region, tile: Tile, n: Node, first: int, count: int) -> None:
    b: Buffer = n.attr[0]
    scalar = _moved(b.dtype)
    bind(r, tile.var, tile.start, first)
    with r.lane_scope(tile.lanes):
        a = access(r, n.args[0])
        prepare(r, a.needs)
        places = _places(r, b, a)
    rows = [r.f.op(f"load {shaped(scalar, count)}, ptr {p}, align {align}") for p, align in places]
    for k, x in enumerate(transposed(r.f, scalar, b.dtype.bytes, rows, count)):
        bind(r, tile.var, tile.start, first + k)
        y = convert.widen(r.f, b.dtype, tile.lanes.n, _bits(r, x, scalar, memory_type(b.dtype), tile.lanes.n))
        r.put(r.key(n), y, True, r.shared.info(n).buffers)


def store_block(r: Region, tile: Tile, first: int, count: int) -> None:
    """All values of a block of u, then its stores, one a lane."""
    assert tile.store is not None
    (b, i), (value,) = tile.store.targets[0], tile.store.values
    scalar, m = _moved(b.dtype), tile.lanes.n
    vectors = []
    for k in range(first, first + count):
        bind(r, tile.var, tile.start, k)
        with r.lane_scope(tile.lanes):
            x = convert.narrow(r.f, b.dtype, m, lanes_of(r, value))
        vectors.append(_bits(r, x, memory_type(b.dtype), scalar, m))
    bind(r, tile.var, tile.start, first)
    with r.lane_scope(tile.lanes):
        a = access(r, i)
        prepare(r, a.needs)
        places = _places(r, b, a)
    if constant_step(a) == count:  # one piece behind the other
        p, align = places[0]
        r.f.do(f"store {shaped(scalar, m * count)} {interleaved(r.f, scalar, vectors, m)}, ptr {p}, align {align}")
        r.touch(r.shared.related[b])
        return
    for x, (p, align) in zip(_columns(r, scalar, b.dtype.bytes, vectors, m), places, strict=True):
        r.f.do(f"store {shaped(scalar, count)} {x}, ptr {p}, align {align}")
    r.touch(r.shared.related[b])


def _columns(r: Region, scalar: str, size: int, vectors: list[str], m: int) -> list[str]:
    """The transpose of vectors of m elements; m is filled up to a power of two."""
    full = 1 << (m - 1).bit_length()
    if full != m:
        order = [min(k, m - 1) for k in range(full)]
        vectors = [r.f.shuffle(scalar, m, x, "poison", order) for x in vectors]
    return transposed(r.f, scalar, size, vectors, full)[:m]


def _places(r: Region, b: Buffer, a: Access) -> list[tuple[str, int]]:
    """Pointer and certain alignment of every lane's piece."""
    assert a.offsets is not None
    pointers = lane_addresses(r, b, a)
    if a.strides:
        return [(p, b.dtype.bytes) for p in pointers]
    return [(p, alignment(r, b, a.terms, o)) for p, o in zip(pointers, a.offsets, strict=True)]


def _moved(t: DType) -> str:
    """The type in which elements are moved: f16 as bits, which every processor shuffles."""
    return "i16" if t.name == "f16" else memory_type(t)


def _bits(r: Region, x: str, a: str, b: str, n: int) -> str:
    return x if a == b else r.f.op(f"bitcast {shaped(a, n)} {x} to {shaped(b, n)}")
