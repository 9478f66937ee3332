"""``python -m nemo_launch`` is the same program as ``run.py`` and ``nemo-launch``."""

from nemo_launch.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
