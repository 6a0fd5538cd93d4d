"""Machines: their description, their memories and the account of a simulated run."""

from .account import Account, CopyStream, Footprint, LiveBuffer, Region, Tensor, Traffic, footprints
from .annotated import AnnotatedNest
from .capacity import Change, Proposal, changes_that_fit, check_capacity
from .errors import AccountError, CapacityError, MachineError, SimulationError
from .machine import Machine, load_machine, machine_names, machine_text, parse_machine
from .parts import Cache, Compute, Dma, Memory, Provenance, Unit
from .roofline import Bound, Roof, Roofline
from .timing import Interval, Line, Stall, Time, Use

__all__ = [
    "Account",
    "AccountError",
    "Bound",
    "AnnotatedNest",
    "Cache",
    "CapacityError",
    "Change",
    "Compute",
    "CopyStream",
    "Dma",
    "Footprint",
    "Interval",
    "Line",
    "LiveBuffer",
    "Machine",
    "MachineError",
    "Memory",
    "Proposal",
    "Provenance",
    "Region",
    "Roof",
    "Roofline",
    "SimulationError",
    "Stall",
    "Tensor",
    "Time",
    "Traffic",
    "Unit",
    "Use",
    "changes_that_fit",
    "check_capacity",
    "footprints",
    "load_machine",
    "machine_names",
    "machine_text",
    "parse_machine",
]
