"""Lowering: the loop IR, its passes, the native and the instrumented back end."""
