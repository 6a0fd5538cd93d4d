"""Tiles whose loads and stores run along different axes: whole vectors and a transpose instead of gathers.

The pattern is an unrolled loop u around a vectorize loop v with nothing but stores in it:

    for u in 0..n unroll
      for v in 0..m vectorize
        dst[... + v] = f(src[... + u + S*v])

For one u the load gathers m elements. All u together read m contiguous pieces of n elements; these are loaded and
transposed in registers, and every u finds its vector made. In the mirrored case, a store to dst[... + u + S*v], the
vectors of all u are computed first, transposed, and written as m contiguous pieces. There groups of 2, 4 or 8 lanes may
keep together, dst[... + G*u + S*(v // G) + v % G], as the operands of dot products do: they are moved as one number.

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
from tilewright.lang.ir import Node, is_const, postorder
from tilewright.lang.simplify import Linear
from tilewright.lang.types import DType

_MOST = 64  # bytes of a piece


@dataclass(frozen=True, slots=True)
class Tile:
    """A pattern that was found: the two loops, the loads to transpose, and the store if it is the one, with the number of
    lanes that keep together in it."""

    var: Node
    start: Linear
    trips: int
    lanes: Lanes
    loads: tuple[Node, ...]
    store: Store | None
    group: int = 1

    def pieces(self) -> Iterator[tuple[int, int]]:
        """(first, count) of the blocks of u, powers of two."""
        sizes = [n.attr[0].dtype.bytes for n in self.loads]
        sizes += [self.store.targets[0][0].dtype.bytes * self.group] if self.store else []
        most = max(2, _MOST // max(sizes))
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
    lanes, written = Lanes(v.var, m), r.shared.writes(s)
    values = [x for t in stores if isinstance(t, Store) for x in (*t.values, *(i for _, i in t.targets))]
    read = [n for n in postorder(values) if n.op in ("load", "load_if")]
    found = tuple(
        n for n in read
        if n.op == "load" and n.attr[0] not in written and _crosswise(r, n.args[0], s.var, lanes, trips)
    )  # fmt: skip
    only = stores[0] if len(stores) == 1 else None
    group, store = 0, only if isinstance(only, Store) and len(only.targets) == 1 else None
    if store is not None and not any(n.attr[0] in written for n in read):
        b, i = store.targets[0]
        group = int(_crosswise(r, i, s.var, lanes, trips)) or _group(r, i, s.var, lanes, trips, b.dtype.bytes)
    if not found and not group:
        return None
    return Tile(s.var, resolve(r, s.start), trips, lanes, found, store if group else None, max(group, 1))


def _crosswise(r: Region, i: Node, u: Node, lanes: Lanes, trips: int) -> bool:
    """Whether an index runs along u one by one, and along the lanes in one stride of a row or more."""
    coefs, _ = resolve(r, i)
    inside = [a for a in coefs if u in r.shared.info(a).vars]
    if inside != [u] or coefs[u] != 1:
        return False
    with r.lane_scope(lanes):
        a = access(r, i)
    if a.uniform or a.dynamic:
        return False
    assert a.offsets is not None
    d = constant_step(Access((), 0, a.offsets))
    return d is not None and (bool(a.strides) or abs(d) >= trips)


def _group(r: Region, i: Node, u: Node, lanes: Lanes, trips: int, size: int) -> int:
    """How many neighbouring lanes keep together in a store that is crosswise in groups, u running from group to group of
    `size` bytes an element; 0 where it is none."""
    coefs, _ = resolve(r, i)
    g = coefs.get(u, 0)
    if (
        g not in (2, 4, 8)
        or g * size > 8
        or lanes.n % g
        or any(u in r.shared.info(a).vars for a in coefs if a is not u)
    ):
        return 0
    with r.lane_scope(lanes):
        a = access(r, i)
    if a.offsets is None or a.strides or a.dynamic or lanes.n == g:
        return 0
    together = all(o == a.offsets[k - k % g] + k % g for k, o in enumerate(a.offsets))
    d = constant_step(Access((), 0, a.offsets[::g]))
    return g if together and d is not None and abs(d) >= trips * g else 0


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
    """All values of a block of u, then its stores, one a lane or a group of lanes, which move as one number."""
    assert tile.store is not None
    (b, i), (value,) = tile.store.targets[0], tile.store.values
    scalar, size, m = _moved(b.dtype), b.dtype.bytes * tile.group, tile.lanes.n // tile.group
    vectors = []
    for k in range(first, first + count):
        bind(r, tile.var, tile.start, k)
        with r.lane_scope(tile.lanes):
            x = convert.narrow(r.f, b.dtype, tile.lanes.n, lanes_of(r, value))
        vectors.append(_bits(r, x, memory_type(b.dtype), scalar, tile.lanes.n))
    if tile.group > 1:
        whole, scalar = shaped(scalar, tile.lanes.n), f"i{8 * size}"
        vectors = [r.f.op(f"bitcast {whole} {x} to {shaped(scalar, m)}") for x in vectors]
    bind(r, tile.var, tile.start, first)
    with r.lane_scope(tile.lanes):
        a = access(r, i)
        prepare(r, a.needs)
        places = _places(r, b, a)[:: tile.group]
    assert a.offsets is not None
    if not a.strides and constant_step(Access((), 0, a.offsets[:: tile.group])) == count * tile.group:
        p, align = places[0]  # one piece behind the other
        r.f.do(f"store {shaped(scalar, m * count)} {interleaved(r.f, scalar, vectors, m)}, ptr {p}, align {align}")
    else:
        for x, (p, align) in zip(_columns(r, scalar, size, vectors, m), places, strict=True):
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
