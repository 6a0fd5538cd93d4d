"""Machines: their description, their memories and the account of a simulated run."""
