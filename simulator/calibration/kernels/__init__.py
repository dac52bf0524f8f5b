"""Kernel profiles condensed from measured kernels."""
