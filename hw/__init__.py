"""Machines: their description, their memories and the account of a simulated run."""

from .account import Account, Footprint, LiveBuffer, Traffic, footprints
from .capacity import Change, changes_that_fit, check_capacity
from .errors import CapacityError, MachineError
from .machine import Machine, load_machine, machine_names, machine_text, parse_machine
from .parts import Cache, Compute, Dma, Memory, Provenance, Unit

__all__ = [
    "Account",
    "Cache",
    "CapacityError",
    "Change",
    "Compute",
    "Dma",
    "Footprint",
    "LiveBuffer",
    "Machine",
    "MachineError",
    "Memory",
    "Provenance",
    "Traffic",
    "Unit",
    "changes_that_fit",
    "check_capacity",
    "footprints",
    "load_machine",
    "machine_names",
    "machine_text",
    "parse_machine",
]
