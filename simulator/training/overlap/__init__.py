"""Kernels, collectives and passes beside each other inside a device."""
