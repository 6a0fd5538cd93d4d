"""Side-by-side measurements: `python -m benchmarks [CASE ...] [--threads N] [--json]`. Never part of the test run."""
