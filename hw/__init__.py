"""Machines: their description, their memories and the account of a simulated run."""

from .account import Account, CopyStream, Footprint, LiveBuffer, Region, Tensor, Traffic, footprints
from .annotated import AnnotatedNest
from .capacity import Change, Proposal, changes_that_fit, check_capacity
from .errors import AccountError, CapacityError, MachineError, SimulationError
from .lock import Difference, Lock, Tolerance, parse_lock, parse_tolerances
from .machine import Machine, load_machine, machine_names, machine_text, parse_machine
from .parts import Cache, Compute, Dma, Memory, Provenance, Unit
from .roofline import Bound, Roof, Roofline
from .timing import Interval, Line, Stall, Time, Use

__all__ = [
    "Account",
    "AccountError",
    "AnnotatedNest",
    "Bound",
    "Cache",
    "CapacityError",
    "Change",
    "Compute",
    "CopyStream",
    "Difference",
    "Dma",
    "Footprint",
    "Interval",
    "Line",
    "LiveBuffer",
    "Lock",
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
    "Tolerance",
    "Traffic",
    "Unit",
    "Use",
    "changes_that_fit",
    "check_capacity",
    "footprints",
    "load_machine",
    "machine_names",
    "machine_text",
    "parse_lock",
    "parse_machine",
    "parse_tolerances",
]
