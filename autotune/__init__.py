"""Tuning: search spaces, search, measuring, records, shape buckets and dispatch will live here."""
