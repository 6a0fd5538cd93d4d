"""Fences after stores that go past the caches: they are ordered by nothing else."""

from __future__ import annotations

from dataclasses import replace

from tilewright.codegen import loops as L


def fenced(s: L.Stmt) -> L.Stmt:
    """A kernel's body with a fence at its end and at the end of every task that streams."""
    return L.block(_tasks(s), L.Fence()) if _streams(s) else s


def _streams(s: L.Stmt) -> bool:
    return any(isinstance(t, L.Store) and t.stream for t in L.walk(s))


def _tasks(s: L.Stmt) -> L.Stmt:
    match s:
        case L.Block(statements):
            return L.Block(tuple(map(_tasks, statements)))
        case L.Allocate(buffer, body):
            return L.Allocate(buffer, _tasks(body))
        case L.If(then=then, otherwise=otherwise):
            return replace(s, then=_tasks(then), otherwise=None if otherwise is None else _tasks(otherwise))
        case L.Section(body=body) | L.Turn(body=body):
            return replace(s, body=_tasks(body))
        case L.For(mode=L.PARALLEL, body=body) if _streams(body):
            return replace(s, body=L.block(_tasks(body), L.Fence()))
        case L.For(body=body):
            return replace(s, body=_tasks(body))
    return s
