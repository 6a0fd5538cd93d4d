"""What is timed of a kernel that is profiled: all that a stage does at a time, as a section around its loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from tilewright.codegen import loops as L
from tilewright.codegen.work import cycles

ELSE = "everything else"  # the section around all others: loops of no stage, memory, conditions
_SHORT = 100  # cycles: to read the clock before and after takes some 50 (Zen 4)


def timed(program: L.Program) -> L.Program:
    """A program, lowered and ready, with a section around everything that a stage does when it is come to.

    That is its outermost loop, with all that loop partitioning made of it, or the call of a function of the user's.
    Sections nest as stages do. What has no loop of its own belongs to what is around it, and so does what takes no longer
    than to read the clock; nothing is timed inside of vector loops. The code between clocks is what it would be without
    them.
    """
    found = _Sections(_worth_it(program.body))
    return replace(program, body=L.Section(L.TIMED, ELSE, found.within(program.body, ELSE)))


def _worth_it(body: L.Stmt) -> frozenset[str]:
    """The stages that take longer than the clock, at one place at least."""
    found: set[str] = set()
    stack = [(body, "")]
    while stack:
        s, around = stack.pop()
        own = _whole(s)
        if own and own != around:
            around = own
            n = cycles(s)
            if n is None or n >= _SHORT:
                found.add(own)
        stack.extend((t, around) for t in L.children(s))
    return frozenset(found)


def _whole(s: L.Stmt) -> str:
    """The stage all of which a statement is: of a loop, of a call, of the two versions of such; else ""."""
    match s:
        case L.For() | L.Call():
            return s.stage
        case L.If(then=then, versions=True):
            return _whole(then)
        case L.Block(statements) if len(found := {_whole(t) for t in statements}) == 1:
            return found.pop()
    return ""


class _Sections:
    def __init__(self, stages: frozenset[str]):
        self.stages = stages

    def within(self, s: L.Stmt, stage: str) -> L.Stmt:
        """A statement of `stage`, with sections around what is of others."""
        own = self.other(s, stage)
        if own:
            return L.Section(L.TIMED, own, self.within(s, own))
        match s:
            case L.Block(statements):
                return L.block(*self.grouped(statements, stage))
            case L.For(mode=L.VECTORIZE):
                return s
            case L.For(body=body) | L.Allocate(body=body):
                return replace(s, body=self.within(body, stage))
            case L.If(then=then, otherwise=otherwise):
                no = None if otherwise is None else self.within(otherwise, stage)
                return replace(s, then=self.within(then, stage), otherwise=no)
        return s

    def grouped(self, statements: Sequence[L.Stmt], stage: str) -> Iterator[L.Stmt]:
        """Neighbours of one stage, the parts of a loop, are come to together."""
        for own, found in groupby(statements, lambda t: self.other(t, stage)):
            parts = [self.within(t, own or stage) for t in found]
            yield from [L.Section(L.TIMED, own, L.block(*parts))] if own else parts

    def other(self, s: L.Stmt, stage: str) -> str:
        """The stage all of which a statement is, if that is another one and timed."""
        own = _whole(s)
        return own if own != stage and own in self.stages else ""
