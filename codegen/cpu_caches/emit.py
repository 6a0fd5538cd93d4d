"""A cache hierarchy as LLVM IR, made for its geometry and policies: a set is one vector, a look-up one comparison.

    void @cache.read(ptr state, i64 address, i64 bytes, i64 tensor)      an access of the core
    void @cache.write(ptr state, i64 address, i64 bytes, i64 tensor)     the same, which changes what is there
    void @cache.flush(ptr state)                                         write back what has changed

The state is one array of i64: for each level the tags (sets x ways), for levels replaced by a tree of bits one number
a set (the bits, and the way that was used last above them), the state of the random numbers; then, for each level and
at last for main memory, counts (tensors x FIELDS), and those of accesses to the line that was used last in its set
(tensors x reads, writes), which are hits of the first level. A tag is (line number + 1) << 9 | tensor << 1 | dirty, 0
is empty. In sets replaced by age way 0 is the youngest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.codegen.emit.builder import Function, Module, lane_constant
from tilewright.hw import Cache

TENSORS = 256  # as many as a tag can tell apart
OWNER_BITS = 9  # with the dirty bit
FIELDS = 9
READS, WRITES, READ_HITS, READ_MISSES, WRITE_HITS, WRITE_MISSES, MISSED, EVICTIONS, WRITE_BACKS = range(FIELDS)
READ, WRITE, CLEAN_VICTIM, DIRTY_VICTIM = range(4)
_LAST = 32  # the bit of a set's number from which on it has the way that was used last; a tree has 31 bits


@dataclass(frozen=True)
class Plan:
    """Where everything is in the state, in elements."""

    caches: tuple[Cache, ...]
    tags: tuple[int, ...]
    trees: tuple[int, ...]
    seed: int
    counts: tuple[int, ...]  # one more than caches: main memory
    again: int  # counts of accesses to what was used last
    size: int


def plan(caches: Sequence[Cache], tensors: int) -> Plan:
    """The state of a hierarchy that counts for so many tensors."""
    at, tags, trees, counts = 0, [], [], []
    for c in caches:
        tags.append(at)
        trees.append(at + c.sets * c.ways)
        at = trees[-1] + (c.sets if c.replacement == "plru" else 0)
    seed, at = at, at + 1
    for _ in range(len(caches) + 1):
        counts.append(at)
        at += tensors * FIELDS
    return Plan(tuple(caches), tuple(tags), tuple(trees), seed, tuple(counts), at, at + 2 * tensors)


def module(p: Plan) -> Module:
    """All of the functions above."""
    m = Module()
    define(m, p)
    _flush(m, p)
    return m


def define(m: Module, p: Plan, prefix: str = "cache") -> None:
    """Put reads and writes (with `prefix` instead of `cache`) into a module."""
    for k in range(len(p.caches)):
        _Level(m, p, k, prefix).emit()
    _memory(m, p, prefix)
    for write in (False, True):
        _access(m, p, prefix, write)


class _Body(Function):
    """A function over the state, with what all of them need."""

    __slots__ = ()

    def at(self, offset: int | str, base: str = "%s") -> str:
        return self.op(f"getelementptr i64, ptr {base}, i64 {offset}")

    def add(self, place: str, by: int | str = 1) -> None:
        old = self.op(f"load i64, ptr {place}")
        self.do(f"store i64 {self.op(f'add i64 {old}, {by}')}, ptr {place}")

    def mark(self, place: str, bit: str) -> None:
        old = self.op(f"load i64, ptr {place}")
        self.do(f"store i64 {self.op(f'or i64 {old}, {bit}')}, ptr {place}")

    def done(self, head: str) -> None:
        self.module.functions.append("\n".join([f"define {head} nounwind {{", "entry:", *self.head, *self.lines, "}"]))


class _Level:
    """The functions of one level: removal, insertion, access."""

    def __init__(self, m: Module, p: Plan, k: int, prefix: str):
        self.m, self.p, self.k, self.prefix = m, p, k, prefix
        self.c = p.caches[k]
        self.ways = self.c.ways
        self.by_age = self.c.replacement in ("lru", "fifo")
        self.v = f"<{self.ways} x i64>"
        self.wide = self.ways > 32  # too many for a vector
        self.below_exclusive = k + 1 < len(p.caches) and p.caches[k + 1].inclusion == "exclusive"

    def name(self, what: str, k: int | None = None) -> str:
        return f"@{self.prefix}.{what}{self.k if k is None else k}"

    def emit(self) -> None:
        if self.wide:
            self._scan()
        self._remove()
        self._insert()
        self._touch()

    # Parts ------------------------------------------------------------------------------------------------------

    def set_of(self, f: _Body, line: str) -> tuple[str, str]:
        """The number of a line's set, and the place of its tags."""
        sets = self.c.sets
        group = f.op(f"and i64 {line}, {sets - 1}" if sets & (sets - 1) == 0 else f"urem i64 {line}, {sets}")
        return group, f.at(f.op(f"add i64 {f.op(f'mul i64 {group}, {self.ways}')}, {self.p.tags[self.k]}"))

    def splat(self, f: _Body, x: str) -> str:
        return (
            f.broadcast("i64", x, self.ways)
            if self.ways > 1
            else f.op(f"insertelement {self.v} poison, i64 {x}, i64 0")
        )

    def scan(self, f: _Body, base: str, wanted: str) -> str:
        """The first way of a set whose tag has the line number `wanted` (plus one; 0: an empty way), else the number of
        ways: one comparison of a vector, in large sets a loop from the youngest on."""
        if self.wide:
            return f.op(f"call i64 {self.name('scan')}(ptr {base}, i64 {wanted})")
        tags = f.op(f"load {self.v}, ptr {base}, align 8")
        numbers = f.op(f"lshr {self.v} {tags}, {self.lanes([OWNER_BITS] * self.ways)}")
        equal = f.op(f"icmp eq {self.v} {numbers}, {self.splat(f, wanted)}")
        bits = f.op(f"bitcast <{self.ways} x i1> {equal} to i{self.ways}")
        marked = f.op(f"or i64 {f.op(f'zext i{self.ways} {bits} to i64')}, {1 << self.ways}")
        f.declare("llvm.cttz.i64", "i64", "i64, i1")
        return f.op(f"call i64 @llvm.cttz.i64(i64 {marked}, i1 false)")

    def _scan(self) -> None:
        """i64 scan(set, wanted)"""
        f = _Body(self.m)
        loop, following, end = f.label("loop"), f.label("following"), f.label("end")
        f.br(loop)
        f.begin(loop)
        hole, i = f.hole(), f.name()
        place = f.at(i, "%set")
        number = f.op(f"lshr i64 {f.op(f'load i64, ptr {place}')}, {OWNER_BITS}")
        f.branch(f.op(f"icmp eq i64 {number}, %wanted"), end, following)
        f.begin(following)
        more = f.op(f"add i64 {i}, 1")
        f.fill(hole, f"{i} = phi i64 [ 0, %entry ], [ {more}, %{following} ]")
        f.branch(f.op(f"icmp ult i64 {more}, {self.ways}"), loop, end)
        f.begin(end)
        f.do(f"ret i64 {f.op(f'phi i64 [ {i}, %{loop} ], [ {self.ways}, %{following} ]')}")
        f.done(f"internal i64 {self.name('scan')}(ptr %set, i64 %wanted)")

    def lanes(self, values: Sequence[int]) -> str:
        return lane_constant("i64", list(values))

    def look(self, f: _Body, base: str, line: str) -> str:
        return self.scan(f, base, f.op(f"add i64 {line}, 1"))

    def shift(self, f: _Body, to: str, start: str, count: str) -> None:
        """Move `count` tags of a large set."""
        f.declare("llvm.memmove.p0.p0.i64", "void", "ptr, ptr, i64, i1")
        f.do(f"call void @llvm.memmove.p0.p0.i64(ptr {to}, ptr {start}, i64 {f.op(f'shl i64 {count}, 3')}, i1 false)")

    def _remove(self) -> None:
        """i64 remove(state, line): take a line out if it is there; whether it had changed."""
        f = _Body(self.m)
        _, base = self.set_of(f, "%line")
        way = self.look(f, base, "%line")
        there, end = f.label("there"), f.label("end")
        f.branch(f.op(f"icmp ult i64 {way}, {self.ways}"), there, end)
        f.begin(there)
        place = f.at(way, base)
        dirty = f.op(f"and i64 {f.op(f'load i64, ptr {place}')}, 1")
        if self.by_age and self.wide:
            older = f.op(f"sub i64 {self.ways - 1}, {way}")
            self.shift(f, place, f.at(1, place), older)
            f.do(f"store i64 0, ptr {f.at(self.ways - 1, base)}")
        elif self.by_age:
            tags = f.op(f"load {self.v}, ptr {base}, align 8")
            zero = f"{self.v} zeroinitializer"
            up = lane_constant("i32", list(range(1, self.ways + 1)))
            moved = f.op(f"shufflevector {self.v} {tags}, {zero}, <{self.ways} x i32> {up}")
            behind = f.op(f"icmp uge {self.v} {self.lanes(range(self.ways))}, {self.splat(f, way)}")
            kept = f.op(f"select <{self.ways} x i1> {behind}, {self.v} {moved}, {self.v} {tags}")
            f.do(f"store {self.v} {kept}, ptr {base}, align 8")
        else:
            f.do(f"store i64 0, ptr {place}")
        f.br(end)
        f.begin(end)
        f.do(f"ret i64 {f.op(f'phi i64 [ 0, %entry ], [ {dirty}, %{there} ]')}")
        f.done(f"internal i64 {self.name('remove')}(ptr %s, i64 %line)")

    def to_front(self, f: _Body, base: str, way: str, tag: str) -> None:
        """`tag` becomes the youngest; what was younger than `way` is one step older."""
        if self.wide:
            self.shift(f, f.at(1, base), base, way)
            f.do(f"store i64 {tag}, ptr {base}")
            return
        tags = f.op(f"load {self.v}, ptr {base}, align 8")
        first = f.op(f"insertelement {self.v} poison, i64 {tag}, i64 0")
        order = lane_constant("i32", [self.ways, *range(self.ways - 1)])
        moved = f.op(f"shufflevector {self.v} {tags}, {self.v} {first}, <{self.ways} x i32> {order}")
        # A table of masks and no comparison, which would become a store under a mask: the next look-up would wait for it.
        table, one = f"@{self.prefix}.front{self.k}", f"[{self.ways} x i64]"
        rows = ([-1 if x <= w else 0 for x in range(self.ways)] for w in range(self.ways))
        values = ", ".join(f"{one} [{', '.join(f'i64 {x}' for x in row)}]" for row in rows)
        self.m.globals.setdefault(table, f"{table} = internal constant [{self.ways} x {one}] [{values}], align 64")
        front = f.op(f"load {self.v}, ptr {f.op(f'getelementptr {one}, ptr {table}, i64 {way}')}, align 8")
        change = f.op(f"and {self.v} {f.op(f'xor {self.v} {moved}, {tags}')}, {front}")
        f.do(f"store {self.v} {f.op(f'xor {self.v} {tags}, {change}')}, ptr {base}, align 8")

    def point_away(self, f: _Body, group: str, way: str) -> None:
        """Every bit on the way to a used one points to the other half; it is the one that was used last."""
        place = f.at(f.op(f"add i64 {group}, {self.p.trees[self.k]}"))
        keep, put = ([], [])
        for w in range(self.ways):
            node, low, high, ones, all_ = 1, 0, self.ways, 0, 0
            while high - low > 1:
                middle = (low + high) // 2
                all_ |= 1 << node
                if w < middle:
                    ones |= 1 << node
                    node, high = 2 * node, middle
                else:
                    node, low = 2 * node + 1, middle
            keep.append(~all_ & (1 << _LAST) - 1)
            put.append(ones | w << _LAST)
        for name, values in (("keep", keep), ("put", put)):
            table = f"@{self.prefix}.{name}{self.k}"
            self.m.globals.setdefault(
                table, f"{table} = internal constant [{self.ways} x i64] [{', '.join(f'i64 {x}' for x in values)}]"
            )
        masks = [f.op(f"load i64, ptr {f.at(way, f'@{self.prefix}.{t}{self.k}')}") for t in ("keep", "put")]
        bits = f.op(f"and i64 {f.op(f'load i64, ptr {place}')}, {masks[0]}")
        f.do(f"store i64 {f.op(f'or i64 {bits}, {masks[1]}')}, ptr {place}")

    def last_used(self, f: _Body, group: str) -> str:
        bits = f.op(f"load i64, ptr {f.at(f.op(f'add i64 {group}, {self.p.trees[self.k]}'))}")
        return f.op(f"lshr i64 {bits}, {_LAST}")

    def pointed_at(self, f: _Body, group: str) -> str:
        bits = f.op(f"load i64, ptr {f.at(f.op(f'add i64 {group}, {self.p.trees[self.k]}'))}")
        node = "1"
        for _ in range(self.ways.bit_length() - 1):
            side = f.op(f"and i64 {f.op(f'lshr i64 {bits}, {node}')}, 1")
            node = f.op(f"add i64 {f.op(f'shl i64 {node}, 1')}, {side}")
        return f.op(f"sub i64 {node}, {self.ways}")

    def used(self, f: _Body, group: str, base: str, way: str, tag: str) -> None:
        """A way was used: its tag is `tag` now."""
        if self.c.replacement == "lru":
            self.to_front(f, base, way, tag)
            return
        f.do(f"store i64 {tag}, ptr {f.at(way, base)}")
        if self.c.replacement == "plru":
            self.point_away(f, group, way)

    def victim(self, f: _Body, group: str, base: str) -> str:
        """The way that a new line takes: an empty one, or the one that the policy gives up."""
        if self.by_age:
            return str(self.ways - 1)  # empty ways are the oldest
        empty = self.scan(f, base, "0")
        if self.c.replacement == "plru":
            given = self.pointed_at(f, group)
        else:
            place = f.at(self.p.seed)
            x = f.op(f"load i64, ptr {place}")
            for shift, by in (("shl", 13), ("lshr", 7), ("shl", 17)):
                x = f.op(f"xor i64 {x}, {f.op(f'{shift} i64 {x}, {by}')}")
            given = f.op(f"urem i64 {x}, {self.ways}")
            full = f.op(f"icmp eq i64 {empty}, {self.ways}")
            old = f.op(f"load i64, ptr {place}")
            f.do(f"store i64 {f.op(f'select i1 {full}, i64 {x}, i64 {old}')}, ptr {place}")
        return f.op(f"select i1 {f.op(f'icmp ult i64 {empty}, {self.ways}')}, i64 {empty}, i64 {given}")

    # Insertion --------------------------------------------------------------------------------------------------

    def _insert(self) -> None:
        """void insert(state, line, dirty, tensor): into its set, and what it pushes out to where that belongs."""
        f, c = _Body(self.m), self.c
        group, base = self.set_of(f, "%line")
        way = self.victim(f, group, base)
        old = f.op(f"load i64, ptr {f.at(way, base)}")
        number = f.op(f"shl i64 {f.op('add i64 %line, 1')}, {OWNER_BITS}")
        tag = f.op(f"or i64 {f.op(f'or i64 {number}, %dirty')}, {f.op('shl i64 %tensor, 1')}")
        if self.by_age:
            self.to_front(f, base, way, tag)
        else:
            self.used(f, group, base, way, tag)
        gone, end = f.label("gone"), f.label("end")
        f.branch(f.op(f"icmp eq i64 {old}, 0"), end, gone)
        f.begin(gone)
        line = f.op(f"sub i64 {f.op(f'lshr i64 {old}, {OWNER_BITS}')}, 1")
        owner = f.op(f"and i64 {f.op(f'lshr i64 {old}, 1')}, {TENSORS - 1}")
        dirty = f.op(f"and i64 {old}, 1")
        if c.inclusion == "inclusive":
            dirty = self._recalled(f, line, dirty)
        counts = f.at(f.op(f"add i64 {f.op(f'mul i64 {owner}, {FIELDS}')}, {self.p.counts[self.k]}"))
        f.add(f.at(EVICTIONS, counts))
        f.add(f.at(WRITE_BACKS, counts), dirty)
        address = f.op(f"mul i64 {line}, {c.line}")
        down = f"(ptr %s, i64 {address}, i64 {c.line}, i64 KIND, i64 {owner})"
        if self.below_exclusive:
            kind = f.op(f"add i64 {dirty}, {CLEAN_VICTIM}")
            f.op(f"call i64 {self.name('touch', self.k + 1)}{down.replace('KIND', kind)}")
            f.br(end)
        else:
            changed = f.label("changed")
            f.branch(f.op(f"icmp ne i64 {dirty}, 0"), changed, end)
            f.begin(changed)
            f.op(f"call i64 {self.name('touch', self.k + 1)}{down.replace('KIND', str(WRITE))}")
            f.br(end)
        f.begin(end)
        f.do("ret void")
        f.done(f"internal void {self.name('insert')}(ptr %s, i64 %line, i64 %dirty, i64 %tensor)")

    def _recalled(self, f: _Body, line: str, dirty: str) -> str:
        """Nothing stays above of a line that an inclusive level gives up; whether it had changed anywhere."""
        for upper in range(self.k):
            size = self.p.caches[upper].line
            first = f.op(f"udiv i64 {f.op(f'mul i64 {line}, {self.c.line}')}, {size}")
            for x in range(max(1, self.c.line // size)):
                given = f.op(f"call i64 {self.name('remove', upper)}(ptr %s, i64 {f.op(f'add i64 {first}, {x}')})")
                dirty = f.op(f"or i64 {dirty}, {given}")
        return dirty

    # Access -----------------------------------------------------------------------------------------------------

    def _touch(self) -> None:
        """i64 touch(state, address, bytes, kind, tensor): 1 where what was read comes with changes that nobody below
        knows of (an exclusive level gave its line away)."""
        f, c = _Body(self.m), self.c
        shift = c.line.bit_length() - 1
        counts = f.at(f.op(f"add i64 {f.op(f'mul i64 %tensor, {FIELDS}')}, {self.p.counts[self.k]}"))
        reading = f.op(f"icmp eq i64 %kind, {READ}")
        f.add(f.op(f"getelementptr i64, ptr {counts}, i64 {f.op(f'select i1 {reading}, i64 {READS}, i64 {WRITES}')}"))
        first = f.op(f"lshr i64 %address, {shift}")
        end = f.op("add i64 %address, %bytes")
        last = f.op(f"lshr i64 {f.op(f'sub i64 {end}, 1')}, {shift}")
        missed, moved = f.alloca("i64", 8), f.alloca("i64", 8)
        f.do(f"store i64 0, ptr {missed}")
        f.do(f"store i64 0, ptr {moved}")
        loop, following, leave = f.label("loop"), f.label("following"), f.label("leave")
        f.br(loop)
        f.begin(loop)
        hole, line = f.hole(), f.name()
        begin = f.op(f"shl i64 {line}, {shift}")
        start = f.intrinsic("llvm.umax", "i64", 0, ["%address", begin])
        part = f.op(f"sub i64 {f.intrinsic('llvm.umin', 'i64', 0, [end, f.op(f'add i64 {begin}, {c.line}')])}, {start}")
        group, base = self.set_of(f, line)
        way = self.look(f, base, line)
        hit, miss = f.label("hit"), f.label("miss")
        f.branch(f.op(f"icmp ult i64 {way}, {self.ways}"), hit, miss)
        f.begin(hit)
        f.add(f.at(f.op(f"select i1 {reading}, i64 {READ_HITS}, i64 {WRITE_HITS}"), counts))
        self._hit(f, group, base, way, line, reading, start, part, moved)
        f.br(following)
        f.begin(miss)
        f.do(f"store i64 1, ptr {missed}")
        f.add(f.at(f.op(f"select i1 {reading}, i64 {READ_MISSES}, i64 {WRITE_MISSES}"), counts))
        self._miss(f, line, begin, reading, start, part, moved)
        f.br(following)
        f.begin(following)
        more = f.op(f"add i64 {line}, 1")
        f.fill(hole, f"{line} = phi i64 [ {first}, %entry ], [ {more}, %{following} ]")
        f.branch(f.op(f"icmp ule i64 {more}, {last}"), loop, leave)
        f.begin(leave)
        f.add(f.at(MISSED, counts), f.op(f"load i64, ptr {missed}"))
        f.do(f"ret i64 {f.op(f'load i64, ptr {moved}')}")
        f.done(f"internal i64 {self.name('touch')}(ptr %s, i64 %address, i64 %bytes, i64 %kind, i64 %tensor)")

    def _hit(
        self, f: _Body, group: str, base: str, way: str, line: str, reading: str, start: str, part: str, moved: str
    ) -> None:
        read, change, end = f.label("read"), f.label("change"), f.label("known")
        f.branch(reading, read, change)
        f.begin(read)
        if self.c.inclusion == "exclusive":
            f.mark(moved, f.op(f"call i64 {self.name('remove')}(ptr %s, i64 {line})"))
        else:
            tag = f.op(f"load i64, ptr {f.at(way, base)}")
            self.used(f, group, base, way, tag)
        f.br(end)
        f.begin(change)
        tag = f.op(f"load i64, ptr {f.at(way, base)}")
        if self.c.write == "back":
            clean = f.op(f"icmp eq i64 %kind, {CLEAN_VICTIM}")
            tag = f.op(f"or i64 {tag}, {f.op(f'select i1 {clean}, i64 0, i64 1')}")
        else:
            self._pass_on(f, start, part)
        if self.c.store_touches_lru:
            self.used(f, group, base, way, tag)
        else:
            f.do(f"store i64 {tag}, ptr {f.at(way, base)}")
        f.br(end)
        f.begin(end)

    def _pass_on(self, f: _Body, start: str, part: str) -> None:
        """A changed piece goes through to the level below."""
        forward, kept = f.label("forward"), f.label("kept")
        f.branch(f.op(f"icmp eq i64 %kind, {CLEAN_VICTIM}"), kept, forward)
        f.begin(forward)
        self._below(f, start, part, WRITE)
        f.br(kept)
        f.begin(kept)

    def _below(self, f: _Body, address: str, size: str | int, kind: int) -> str:
        below = self.name("touch", self.k + 1)
        return f.op(f"call i64 {below}(ptr %s, i64 {address}, i64 {size}, i64 {kind}, i64 %tensor)")

    def _miss(self, f: _Body, line: str, begin: str, reading: str, start: str, part: str, moved: str) -> None:
        c = self.c
        end, fill = f.label("filled"), f.label("fill")
        if c.inclusion == "exclusive":  # it is filled by what the level above gives up, and by nothing else
            through = f.label("through")
            f.branch(reading, through, fill)
            f.begin(through)
            f.mark(moved, self._below(f, begin, c.line, READ))
            f.br(end)
        elif not c.write_allocate:
            through = f.label("through")
            f.branch(f.op(f"icmp eq i64 %kind, {WRITE}"), through, fill)
            f.begin(through)
            self._below(f, start, part, WRITE)
            f.br(end)
        else:
            f.br(fill)
        f.begin(fill)
        fetched = f.alloca("i64", 8)
        f.do(f"store i64 0, ptr {fetched}")
        fetch, have = f.label("fetch"), f.label("have")
        f.branch(f.op(f"icmp ule i64 %kind, {WRITE}"), fetch, have)
        f.begin(fetch)
        f.do(f"store i64 {self._below(f, begin, c.line, READ)}, ptr {fetched}")
        f.br(have)
        f.begin(have)
        dirty = f.op(f"load i64, ptr {fetched}")
        if c.write == "back":
            changing = f.op(f"zext i1 {self._changing(f)} to i64")
            dirty = f.op(f"or i64 {dirty}, {changing}")
        else:
            changed, rest = f.label("changed"), f.label("rest")
            f.branch(self._changing(f), changed, rest)
            f.begin(changed)
            self._below(f, start, part, WRITE)
            f.br(rest)
            f.begin(rest)
        f.do(f"call void {self.name('insert')}(ptr %s, i64 {line}, i64 {dirty}, i64 %tensor)")
        f.br(end)
        f.begin(end)

    def _changing(self, f: _Body) -> str:
        """Whether the access changes what is there: `WRITE` and `DIRTY_VICTIM` are the odd kinds."""
        return f.op("trunc i64 %kind to i1")


def _memory(m: Module, p: Plan, prefix: str) -> None:
    """Main memory counts what comes to it."""
    f = _Body(m)
    reading = f.op(f"icmp eq i64 %kind, {READ}")
    field = f.op(f"select i1 {reading}, i64 {READS}, i64 {WRITES}")
    counts = f.op(f"add i64 {f.op(f'mul i64 %tensor, {FIELDS}')}, {p.counts[-1]}")
    f.add(f.at(f.op(f"add i64 {counts}, {field}")))
    f.do("ret i64 0")
    head = f"internal i64 @{prefix}.touch{len(p.caches)}(ptr %s, i64 %address, i64 %bytes, i64 %kind, i64 %tensor)"
    f.done(head)


def _access(m: Module, p: Plan, prefix: str, write: bool) -> None:
    """Most accesses are to the line that was used last in its set, where a hit changes nothing but counts and the dirty
    bit. That much is put in where the access is made; the rest is a call."""
    f, level = _Body(m), _Level(m, p, 0, prefix)
    c = level.c
    slow, done = f.label("slow"), f.label("done")
    if c.replacement != "random" and c.inclusion != "exclusive" and not (write and c.write == "through"):
        fast = f.label("fast")
        shift = c.line.bit_length() - 1
        line = f.op(f"lshr i64 %address, {shift}")
        end = f.op("add i64 %address, %bytes")
        last = f.op(f"lshr i64 {f.op(f'sub i64 {end}, 1')}, {shift}")
        group, base = level.set_of(f, line)
        place = base if level.by_age else f.at(level.last_used(f, group), base)
        tag = f.op(f"load i64, ptr {place}")
        same = f.op(f"icmp eq i64 {f.op(f'lshr i64 {tag}, {OWNER_BITS}')}, {f.op(f'add i64 {line}, 1')}")
        whole = f.op(f"icmp eq i64 {line}, {last}")
        f.branch(f.op(f"select i1 {same}, i1 {whole}, i1 false"), fast, slow)
        f.begin(fast)
        if write:
            f.do(f"store i64 {f.op(f'or i64 {tag}, 1')}, ptr {place}")
        f.add(f.at(f.op(f"add i64 {f.op('shl i64 %tensor, 1')}, {p.again + write}")))
        f.br(done)
    else:
        f.br(slow)
    f.begin(slow)
    kind = WRITE if write else READ
    f.op(f"call i64 @{prefix}.touch0(ptr %s, i64 %address, i64 %bytes, i64 {kind}, i64 %tensor)")
    f.br(done)
    f.begin(done)
    f.do("ret void")
    name = "write" if write else "read"
    f.done(f"internal void @{prefix}.{name}(ptr %s, i64 %address, i64 %bytes, i64 %tensor) alwaysinline")


def _flush(m: Module, p: Plan) -> None:
    """Level by level from the core outwards; lines stay where they are."""
    f = _Body(m)
    for k, c in enumerate(p.caches):
        loop, changed, following, leave = (f.label(x) for x in ("loop", "changed", "following", "leave"))
        before = f.block
        f.br(loop)
        f.begin(loop)
        hole, i = f.hole(), f.name()
        place = f.at(i)
        tag = f.op(f"load i64, ptr {place}")
        f.branch(f.op(f"trunc i64 {tag} to i1"), changed, following)
        f.begin(changed)
        f.do(f"store i64 {f.op(f'and i64 {tag}, -2')}, ptr {place}")
        owner = f.op(f"and i64 {f.op(f'lshr i64 {tag}, 1')}, {TENSORS - 1}")
        counts = f.op(f"add i64 {f.op(f'mul i64 {owner}, {FIELDS}')}, {p.counts[k] + WRITE_BACKS}")
        f.add(f.at(counts))
        line = f.op(f"sub i64 {f.op(f'lshr i64 {tag}, {OWNER_BITS}')}, 1")
        address = f.op(f"mul i64 {line}, {c.line}")
        f.op(f"call i64 @cache.touch{k + 1}(ptr %s, i64 {address}, i64 {c.line}, i64 {WRITE}, i64 {owner})")
        f.br(following)
        f.begin(following)
        more = f.op(f"add i64 {i}, 1")
        f.fill(hole, f"{i} = phi i64 [ {p.tags[k]}, %{before} ], [ {more}, %{following} ]")
        f.branch(f.op(f"icmp ult i64 {more}, {p.tags[k] + c.sets * c.ways}"), loop, leave)
        f.begin(leave)
    f.do("ret void")
    f.done("void @cache.flush(ptr %s)")
