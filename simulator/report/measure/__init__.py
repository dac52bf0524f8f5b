"""Measured kernels as a page."""
