"""Micro-benchmarks of one machine through PyTorch, and one block of a transformer beside its prediction."""
