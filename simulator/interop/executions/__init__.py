"""Executions that others recorded, operation by operation: Chakra's traces, and those of PyTorch's profiler."""
