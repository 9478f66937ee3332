"""Entry of a Python recipe on its node: builds what ``graph.json`` beside it says and calls it.

Standard library, Python 3.8. Worker processes that multiprocessing spawns load this file again, under another name:
they get the import path and build nothing.
"""

import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "sources")

# This folder is where Python looks first, and nothing in it is for imports: a module of the user may be called recipe.
sys.path[:] = [path for path in sys.path if not path or os.path.abspath(path) != HERE]
if SOURCES not in sys.path:
    sys.path.append(SOURCES)

if __name__ == "__main__":
    importlib.import_module("nemo_launch_node.build").run(HERE)
