"""This computer, measured: what `tilewright machine probe` writes as a machine file."""

from .probe import LevelFigures, Probe, probe

__all__ = ["LevelFigures", "Probe", "probe"]
