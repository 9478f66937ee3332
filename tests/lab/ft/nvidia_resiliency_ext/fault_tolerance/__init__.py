"""A stand-in for NVIDIA's package of this name."""
