"""What schedules cost, before anything is compiled, and what no schedule can be faster than."""

from .bound import lower_bound, needed
from .predict import Model, Prediction
from .rates import here, peaks

__all__ = ["Model", "Prediction", "here", "lower_bound", "needed", "peaks"]
