#!/usr/bin/env python3
"""The driver: ``python3 run.py -s RECIPE ...`` from a clone, installed or not, from any directory."""

import os
import sys

# The clone's own package wins over an installed one, also under `python3 -P` and PYTHONSAFEPATH, which leave
# the script's directory out of sys.path.
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from nemo_launch.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
