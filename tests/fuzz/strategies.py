"""The generator of trials as Hypothesis strategies."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from tests.fuzz.covering import pairs
from tests.fuzz.trials import Choose, Focus, Trial, draw
from tilewright.schedule.directives.kinds import KINDS


def chosen_by(data: st.DataObject) -> Choose:
    """A function that draws 0..n-1."""
    return lambda n: data.draw(st.integers(0, n - 1)) if n > 1 else 0


def focuses() -> st.SearchStrategy[Focus]:
    """Anything, a kind of directive, or one with a tail."""
    return st.one_of(
        st.just(Focus()),
        st.sampled_from(list(KINDS)).map(Focus),
        st.sampled_from(pairs()).map(lambda p: Focus(p[1], p[0])),
    )


@st.composite
def trials(draw_: st.DrawFn) -> Trial:
    """A pipeline under a legal schedule."""
    focus = draw_(focuses())
    data = draw_(st.data())
    found = draw(chosen_by(data), data.draw(st.integers(0, 1 << 30)), focus)
    assume(found is not None)
    assert found is not None
    return found
