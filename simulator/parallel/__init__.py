"""The device mesh: sizes of the axes, the place of every rank, groups along axes."""

from simulator.parallel.mesh import Mesh, build_mesh

__all__ = ["Mesh", "build_mesh"]
