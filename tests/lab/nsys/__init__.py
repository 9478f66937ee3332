"""A stand-in for nsys: the program itself is not free software."""

from pathlib import Path

#: The program; its folder goes on PATH.
STAND_IN = Path(__file__).with_name("nsys")
