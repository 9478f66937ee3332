"""A stand-in for pyxis: the plug-in for Slurm, and images that it can start."""

from tests.lab.pyxis.images import Images

__all__ = ["Images"]
