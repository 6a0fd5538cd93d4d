"""The demonstration: a photograph blurred and sharpened, and matrices multiplied, each under several schedules."""

from tilewright.demo.report import Report, Row
from tilewright.demo.run import demo

__all__ = ["Report", "Row", "demo"]
