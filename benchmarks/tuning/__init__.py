"""What tuning achieves, as measured: `python -m benchmarks.tuning COMMAND`."""
