"""A traced program through our hierarchy against cachegrind's counts of the same program. By hand, where valgrind is:
`pytest -m valgrind`. What came out is in docs/simulator-caches.md."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.test_cpu_caches import cache
from tilewright.codegen.cpu_caches import Hierarchy

pytestmark = [
    pytest.mark.valgrind,
    pytest.mark.skipif(not (shutil.which("valgrind") and shutil.which("gcc")), reason="needs valgrind and gcc"),
]

# No library: what start-up code of one reads differs from run to run.
NEST = """
double a[60][61], b[61][40], c[60][40];
void _start(void) {
    for (int i = 0; i < 60; i++)
        for (int k = 0; k < 61; k++)
            a[i][k] = i + k;
    for (int k = 0; k < 61; k++)
        for (int j = 0; j < 40; j++)
            b[k][j] = k - j;
    for (int i = 0; i < 60; i++)
        for (int j = 0; j < 40; j++)
            for (int k = 0; k < 61; k++)
                c[i][j] += a[i][k] * b[k][j];
    char *bytes = (char *)a + 3; /* accesses that straddle lines */
    for (int i = 0; i < 60 * 61 * 8 - 16; i += 13)
        *(long *)(bytes + i) += i;
    __asm__ volatile("syscall" : : "a"(60L), "D"(0L));
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("nest")
    (folder / "nest.c").write_text(NEST)
    subprocess.run(["gcc", "-O1", "-static", "-nostdlib", "-o", "nest", "nest.c"], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def trace(program) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Addresses, sizes and whether each access writes: what lackey saw. A load and store by one instruction is a read there
    and here."""
    said = ["--tool=lackey", "--trace-mem=yes", "--log-file=trace.txt", "./nest"]
    subprocess.run(["valgrind", *said], cwd=program, check=True)
    rows = []
    with (program / "trace.txt").open() as lines:
        for line in lines:
            if line.startswith((" L ", " S ", " M ")):
                address, size = line[3:].split(",")
                rows.append((int(address, 16), int(size), line[1] == "S"))
    addresses, sizes, writes = zip(*rows, strict=True)
    return np.array(addresses), np.array(sizes), np.array(writes)


@pytest.mark.parametrize(("size", "ways", "line"), [(4096, 4, 64), (32768, 8, 64), (2048, 1, 32), (8192, 128, 64)])
def test_counts_are_those_of_cachegrind(program, trace, size, ways, line):
    flags = [f"--D1={size},{ways},{line}", "--I1=32768,8,64", "--LL=1048576,16,64", "--cache-sim=yes"]
    subprocess.run(
        ["valgrind", "--tool=cachegrind", *flags, "--cachegrind-out-file=out", "--log-file=log", "./nest"],
        cwd=program, check=True,
    )  # fmt: skip
    summary = next(x for x in (program / "out").read_text().splitlines() if x.startswith("summary:"))
    _, _, _, reads, read_misses, _, writes, write_misses, _ = map(int, summary.split()[1:])
    addresses, sizes, written = trace
    h = Hierarchy([cache("D1", size, ways, line)], ["reads", "writes"])
    h.replay(addresses, sizes, written, written.astype(int))
    got = h.levels[0].tensors
    assert (got["reads"].reads, got["writes"].writes) == (reads, writes)
    assert (got["reads"].missed, got["writes"].missed) == (read_misses, write_misses)
