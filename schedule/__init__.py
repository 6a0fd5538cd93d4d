"""Schedules: directives, the trace of them, and the Nest they lead to."""
