"""An account worked out by hand, with everything in it: a product in tiles, two slots in and two out, on the Snitch preset.

Tiles of 4x8 of C, whole panels of A and B in f64; the recurrence is the closed form of double buffering with one channel.
"""

from __future__ import annotations

from tilewright.hw import (
    Account,
    CopyStream,
    Interval,
    Line,
    LiveBuffer,
    Region,
    Stall,
    Tensor,
    Time,
    Traffic,
    Use,
    footprints,
    load_machine,
)

SNITCH = load_machine("snitch-cluster")
M, N, K = 32, 64, 8
ROWS, COLUMNS = 4, 8
STEPS = [(jo, io) for jo in range(N // COLUMNS) for io in range(M // ROWS)]
A_TILE, B_TILE, C_TILE = ROWS * K * 8, K * COLUMNS * 8, ROWS * COLUMNS * 8
LIVES = {"B_C": 2 * B_TILE, "A_C": 2 * A_TILE, "C_tile": 2 * C_TILE}
# A row of each tile is a run of whole bursts: descriptor, then 64 bytes a cycle, then the latency of the main memory.
ISSUE, LATENCY = 3, 100
COMPUTE = 2 * ROWS * COLUMNS * K / 16 + 40  # operations at the peak rate, and the pipelines' latency


def _times() -> tuple[list[Interval], dict[tuple[str, str, str], float]]:
    """What happens when: loads for the next step go out while a step computes, stores when it is done."""
    done: list[Interval] = []
    waits: dict[tuple[str, str, str], float] = {}
    channel, core = 0.0, 0.0
    ready: dict[int, float] = {}
    computed: list[float] = []
    stored: list[float] = []

    def copy(name: str, size: int, start: float) -> float:
        nonlocal channel
        begin = max(channel, start)
        channel = begin + ISSUE + size / 64
        done.append(Interval("dma.0", name, begin, channel, "", size))
        return channel + LATENCY

    def load(step: int) -> None:
        free = computed[step - 2] if step >= 2 else 0.0
        _, io = STEPS[step]
        last = copy("A_C.load", A_TILE, free)
        if io == 0:
            last = copy("B_C.load", B_TILE, free)
        ready[step] = last

    load(0)
    for step in range(len(STEPS)):
        if step + 1 < len(STEPS):
            load(step + 1)
        room = stored[step - 2] if step >= 2 else 0.0
        for cause, buffer, until in (("load", "A_C", ready[step]), ("store", "C_tile", room)):
            if until > core:
                done.append(Interval("wait", buffer, core, until, cause))
                waits[cause, "C.update", buffer] = waits.get((cause, "C.update", buffer), 0.0) + until - core
                core = until
        done.append(Interval("compute", "C.update", core, core + COMPUTE))
        core += COMPUTE
        computed.append(core)
        stored.append(copy("C_tile.store", C_TILE, core))
    end = stored[-1]
    done.append(Interval("wait", "C_tile", core, end, "drain"))
    waits["drain", "C_tile.store", "C_tile"] = end - core
    done += [Interval("memory.tcdm", name, 0.0, end, "", size) for name, size in LIVES.items()]
    return sorted(done, key=lambda i: (i.start, i.track)), waits


def sample(intervals: bool = True) -> Account:
    happened, waits = _times()
    end = max(i.end for i in happened)
    n = len(STEPS)
    a, b, c, macs = n * A_TILE // 8, N // COLUMNS * B_TILE // 8, M * N, M * N * K
    traffic = (
        Traffic("dram", "A", a, 0, a * 8, 0, drains=a, of="A", requests=a),
        Traffic("dram", "B", b, 0, b * 8, 0, drains=b, of="B", requests=b),
        Traffic("dram", "C", 0, c, 0, c * 8, of="C"),
        Traffic("tcdm", "A_C", macs // 8, a, macs, a * 8, fills=a, of="A", requests=macs),
        Traffic("tcdm", "B_C", macs // 4, b, 2 * macs, b * 8, fills=b, of="B", requests=macs // 4),
        Traffic("tcdm", "C_tile", 9 * c, 9 * c, 72 * c, 72 * c, drains=c, first=c, of="C", requests=9 * c),
    )
    copies = (
        CopyStream("B_C.load", "B_C", "dram", "tcdm", "dma", 8, 8, b * 8, 8 * K, b * 8),
        CopyStream("A_C.load", "A_C", "dram", "tcdm", "dma", n, n, a * 8, n * ROWS, a * 8),
        CopyStream("C_tile.store", "C_tile", "tcdm", "dram", "dma", n, n, c * 8, n * ROWS, c * 8),
    )
    live = [LiveBuffer(name, "tcdm", size // 2, 2) for name, size in LIVES.items()]
    busy = n * COMPUTE
    stalls = tuple(Stall(cause, section, buffer, cycles) for (cause, section, buffer), cycles in waits.items())
    moved = sum(i.end - i.start for i in happened if i.track == "dma.0")
    inside = {"load": sum(s.cycles for s in stalls if s.cause == "load")}
    lines = (
        Line("loop", 0, "C.update.jo", "for jo in 0..N//8", 1, 8, (a + b + c) * 8, busy, inside),
        Line("copy", 1, "B_C.load", "load B_C", 8, 0, b * 8, transfer=8 * (ISSUE + B_TILE / 64)),
        Line("loop", 1, "C.update.io", "for io in 0..M//4", 8, n, (a + c) * 8, busy, inside),
        Line("copy", 2, "A_C.load", "load A_C", n, 0, a * 8, transfer=n * (ISSUE + A_TILE / 64)),
        Line("compute", 2, "C.update", "compute C.update", n, 0, 0, busy, inside),
        Line("copy", 2, "C_tile.store", "store C_tile", n, 0, c * 8, transfer=n * (ISSUE + C_TILE / 64)),
    )
    read, written = ({"tcdm": sum(getattr(t, f) for t in traffic[3:])} for f in ("bytes_read", "bytes_written"))
    regions = (
        Region("B_C.load", "copy", {}, {}, {"dram": b * 8}, {"tcdm": b * 8}),
        Region("A_C.load", "copy", {}, {}, {"dram": a * 8}, {"tcdm": a * 8}),
        Region("C.update", "compute", {"f64": 2 * macs}, {}, read, written),
        Region("C_tile.store", "copy", {}, {}, {"tcdm": c * 8}, {"dram": c * 8}),
    )
    time = Time(
        end, busy, "decoupled", 2 * macs / 16, stalls,
        (Use("ops", 2 * macs / 16), Use("tcdm.read", read["tcdm"] / 256), Use("dma.0", moved)),
        lines, tuple(happened) if intervals else (),
    )  # fmt: skip
    return Account(
        "matmul", SNITCH.name, {"M": M, "N": N, "K": K}, traffic, footprints(SNITCH, [("C.update.io", live)]), copies,
        {"f64": 2 * macs}, regions, (Tensor("A", M * K * 8), Tensor("B", K * N * 8), Tensor("C", 0, c * 8)), (), time,
        {"dram": 250.0 * (a + b) * 8 + 375.0 * c * 8, "tcdm": 2.0 * (read["tcdm"] + written["tcdm"])},
        "skeleton", ("C_tile is copied only where its tile changes",),
    )  # fmt: skip
