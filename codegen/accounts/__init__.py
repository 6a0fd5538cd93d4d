"""Runs on a simulated machine and their accounts.

prepared                      a schedule on a machine, lowered once
table, operations             what its skeleton is walked with, see `codegen.skeleton`
account, simulate             from the skeleton alone; from a run with data
assemble, intervals           counters and events to an account
footprint, fitting            what lives together in each memory; what to change so that it fits
outline, lines                the annotated nest
"""
