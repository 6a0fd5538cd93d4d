"""Whether the points that one iteration of a loop writes fill a box: only then can a tile hold just them."""

from __future__ import annotations

from tilewright.schedule.state import Split, Stage, State, refuse, root_name, versioned

_IN, _OUT, _BLOCK = "in", "out", "block"  # a loop's range is run through whole, stands still, or a piece of it is run


def check_tiles(state: State) -> None:
    """Raise ScheduleError if a tile (cache_write) would hold points that its iteration does not write."""
    for s in state.stages.values():
        for tile in s.tiles:
            if tile.loop is None:
                continue  # all points are inside
            around = s.loops[: s.depth(tile.loop) + 1]
            threads = next((x.name for x in around if x.reduction and x.mode == "parallel"), None)
            if threads is not None:
                raise refuse(
                    f"the tile {tile.name} at {state.loop_address(s.key, tile.loop)} may hold elements "
                    f"that other iterations of the parallel reduction loop {threads} update, and is stored as a whole",
                    "tile-race", f"run {threads} serially, or leave the tile out",
                )  # fmt: skip
            found = gap(s, tile.loop)
            if found is not None:
                raise refuse(
                    f"one iteration of {state.loop_address(s.key, tile.loop)} would write with gaps: {found}",
                    "tile-gaps",
                    "reorder: if an outer part of a split stands inside the tile's loop, the inner part does too",
                )  # fmt: skip


def gap(stage: Stage, loop: str) -> str | None:
    """Why the pure variables do not fill a box inside `loop`, or None where they do."""
    unique, shown = versioned(stage)
    depth = stage.depth(loop)
    at = {x.name: _IN if k > depth else _OUT for k, x in enumerate(unique.loops)}
    pure = {root_name(r) for r in stage.roots if r.op == "var"}
    reductions = {root_name(r) for r in stage.roots} - pure
    for t in unique.transforms:
        if isinstance(t, Split) and t.parent in reductions:
            reductions |= {t.outer, t.inner}
        elif not isinstance(t, Split) and {t.outer, t.inner} <= reductions:
            reductions.add(t.fused)
    for t in reversed(unique.transforms):
        if isinstance(t, Split):
            outer, inner = at[t.outer], at[t.inner]
            if t.parent not in reductions and (outer, inner) in _GAPS:
                return f"{shown[t.outer]} runs inside, but {shown[t.inner]} not wholly"
            at[t.parent] = outer if outer == inner else _BLOCK
        else:
            if at[t.fused] == _BLOCK and t.fused not in reductions:
                return f"a part of the fused loop {shown[t.fused]} runs inside"
            at[t.outer] = at[t.inner] = at[t.fused]
    return None


_GAPS = {(_IN, _OUT), (_IN, _BLOCK), (_BLOCK, _OUT), (_BLOCK, _BLOCK)}
