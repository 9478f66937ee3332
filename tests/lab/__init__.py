"""A real Slurm cluster of four nodes on this machine, and the user without rights who works on it."""

from tests.lab.cluster import LAB, Lab, why_not
from tests.lab.launcher import Launcher
from tests.lab.user import LabUser, checkout_for, python_for

__all__ = ["LAB", "Lab", "LabUser", "Launcher", "checkout_for", "python_for", "why_not"]
