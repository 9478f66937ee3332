"""Entry of an AutoModel recipe on its node: finds what ``recipe:`` names, gives it its config, and runs it.

Beside this file lie ``config.yaml``, the recipe's part of the user's file, and ``what.json``, what the launcher made of
it; the words of this program are the overrides as they were typed. Standard library, Python 3.8; AutoModel's own
recipes load ``config.yaml`` themselves, as they do when they are started by hand.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: How AutoModel's recipes, and those written like them, are run once they are set up.
LOOPS = ("run_benchmark", "run_train_validation_loop", "run", "__call__")


class NotThere(Exception):
    """What ``recipe:`` names cannot be found."""


def run(folder: str, words: Sequence[str]) -> int:
    """Run what the folder says; the exit code."""
    with open(os.path.join(folder, "what.json"), encoding="utf-8") as file:
        what = json.load(file)
    restored = restart(what)
    if restored:
        words = [*words, "--%s=%s" % restored]
        if what["config"] is not None:
            put(what["config"], *restored)
        if os.environ.get("RANK", "0") == "0":
            print("nemo_launch: restarting from %s=%s" % restored, flush=True)
    path = os.path.join(folder, "config.yaml")
    sys.argv = [sys.argv[0], "-c", path, *words]
    try:
        found = find(what)
    except NotThere as error:
        print("nemo_launch: recipe: %s" % error, file=sys.stderr, flush=True)
        return 2
    result = call(found, what["config"], path)
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def find(what: dict[str, Any]) -> Any:
    """The function or class that is to run."""
    if what["file"]:
        return in_file(what["file"], what["target"])
    tried = []
    for name in what["targets"]:
        try:
            return dotted(name)
        except NotThere as error:
            tried.append(str(error))
    raise NotThere("; ".join(tried))


def dotted(name: str) -> Any:
    """``package.module.name``, ``package.module:name``, a module with a ``main``, or a class of AutoModel's alone."""
    if "." not in name and ":" not in name:
        name = of_automodel(name)
    words = name.replace(":", ".").split(".")
    for end in range(len(words), 0, -1):
        module = ".".join(words[:end])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            # what is missing is this name, or one of those above it; anything else is the recipe's own trouble
            if error.name and (module == error.name or module.startswith(error.name + ".")):
                missing = error.name
                continue
            raise
        for number, word in enumerate(words[end:], end):
            if not hasattr(found, word):
                raise NotThere("%s has no %s" % (".".join(words[:number]), word))
            found = getattr(found, word)
        return main_of(found, name)
    how = "; pip install nemo-automodel" if missing == "nemo_automodel" else ""
    raise NotThere("%s cannot be imported by %s: there is no module %s%s" % (name, sys.executable, missing, how))


def of_automodel(name: str) -> str:
    try:
        utils = importlib.import_module("nemo_automodel.cli.utils")
    except ModuleNotFoundError:
        fix = "write its whole path, as in package.module.%s" % name
        raise NotThere("%s has no module, and no AutoModel that knows it is here: %s" % (name, fix)) from None
    try:
        return str(utils.resolve_recipe_name(name))
    except ValueError as error:
        raise NotThere(str(error)) from None


def in_file(path: str, name: str) -> Any:
    """A function or class of a file."""
    sys.path.insert(0, os.path.dirname(path))
    from importlib import util

    module_name = os.path.splitext(os.path.basename(path))[0]
    spec = util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise NotThere("%s is no Python file" % path)
    module = util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise NotThere("%s has no %s" % (path, name))
    return getattr(module, name)


def main_of(found: Any, name: str) -> Any:
    if not inspect.ismodule(found):
        return found
    if not hasattr(found, "main"):
        raise NotThere("%s is a module without a function main" % name)
    return found.main


def call(found: Any, config: Any, path: str) -> Any:
    """Run a class as AutoModel does (made of the config, ``setup``, then its loop), a function with the config."""
    if inspect.isclass(found):
        kind: Any = found
        made = kind(automodel_config(path) if is_automodel(found) else config)
        if hasattr(made, "setup"):
            made.setup()
        for name in LOOPS:
            if hasattr(made, name):
                return getattr(made, name)()
        print("nemo_launch: recipe: %s has none of %s" % (found.__name__, ", ".join(LOOPS)), file=sys.stderr)
        return 2
    if is_automodel(found):
        return found(path)
    return found(config) if takes_one(found) else found()


def is_automodel(found: Any) -> bool:
    kinds = inspect.getmro(found) if inspect.isclass(found) else (found,)
    return any(getattr(kind, "__module__", "").partition(".")[0] == "nemo_automodel" for kind in kinds)


def automodel_config(path: str) -> Any:
    """The config as AutoModel reads it: the file of ``-c`` with the overrides of the command line."""
    parser = importlib.import_module("nemo_automodel.components.config._arg_parser")
    return parser.parse_args_and_load_config(path)


def takes_one(function: Callable[..., Any]) -> bool:
    """Whether it wants the config; one that takes nothing reads the command line itself."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    kinds = [one.kind for one in inspect.signature(function).parameters.values()]
    return any(kind in positional or kind is inspect.Parameter.VAR_POSITIONAL for kind in kinds)


def restart(what: dict[str, Any]) -> tuple[str, str] | None:
    """(key, path) of the checkpoint to go on from; None: this is the first attempt, or none was saved."""
    if os.environ.get("NEMO_LAUNCH_ATTEMPT", "0") in ("", "0"):
        return None
    folders = [what["checkpoints"]] if what["checkpoints"] else []
    for folder in folders or [os.path.dirname(os.environ.get("NEMO_LAUNCH_RESTORE_FROM", "")), "checkpoints"]:
        for name in ("LATEST", "latest"):
            path = os.path.abspath(os.path.join(folder, name))
            if folder and os.path.isdir(path):
                return what["restore_key"], path
    return None


def put(config: dict[str, Any], key: str, value: Any) -> None:
    """Set ``a.b`` in a mapping of mappings."""
    words = key.split(".")
    for word in words[:-1]:
        if not isinstance(config.get(word), dict):
            config[word] = {}
        config = config[word]
    config[words[-1]] = value


def main() -> None:
    """Run the folder that this file lies in."""
    here = os.path.dirname(os.path.abspath(__file__))
    # Python looks here first, and nothing here is for imports: a module of the user may be called automodel.
    sys.path[:] = [path for path in sys.path if not path or os.path.abspath(path) != here]
    sys.exit(run(here, sys.argv[1:]))


if __name__ == "__main__":
    main()
