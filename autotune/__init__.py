"""Tuning: spaces of schedules, search, measuring, records, shape buckets and dispatch."""
