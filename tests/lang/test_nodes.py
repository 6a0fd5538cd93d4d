"""Nodes are interned: equal ones are one object, whoever makes them."""

from __future__ import annotations

import sys
import threading

from tilewright.lang.ir import node, size
from tilewright.lang.types import index


def test_threads_that_make_a_node_at_once_get_one():
    interval, threads = sys.getswitchinterval(), 4
    sys.setswitchinterval(1e-6)
    try:
        for k in range(60):
            start, made = threading.Barrier(threads), []

            def make(k=k, start=start, made=made):
                start.wait()
                made.append([node("add", index, (size(f"race{k}"), size(f"n{i}"))) for i in range(30)])

            running = [threading.Thread(target=make) for _ in range(threads)]
            for t in running:
                t.start()
            for t in running:
                t.join()
            assert all(a is b for others in made[1:] for a, b in zip(made[0], others, strict=True))
    finally:
        sys.setswitchinterval(interval)
