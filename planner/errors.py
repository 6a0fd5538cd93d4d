"""What a planner refuses."""

from __future__ import annotations

from tilewright.lang.errors import TilewrightError


class PlanError(TilewrightError):
    """A graph, an objective or sizes that there is no plan for."""

    default_code = "plan"
