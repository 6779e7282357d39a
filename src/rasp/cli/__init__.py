"""The command line. Commands are imported when they are called; this is the only place that turns errors into exits."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from cyclopts import App, CycloptsError

from .. import __version__
from ..errors import CellsFailed, FileError, InputError, RaspError, UncountedError
from . import examples

OK, FOUND, USAGE, MODEL, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 4, 130

HELP = (
    "What each part of a PyTorch model costs: parameters, MACs, FLOPs, memory, time and energy.\n\n"
    "A MODEL is a built-in name, torchvision:NAME, timm:NAME, hf:CONFIG.json, package.module:factory, file.py:factory "
    "or a saved profile.json.\n\n"
    "Exit codes: 0 done, 1 something was found (an operator without a rule under --strict, a model that does not fit), "
    "2 wrong usage, 3 the model could not be loaded or run, 4 cells of a sweep failed, 130 interrupted. "
    "With --traceback an error shows where it came from."
)


def app() -> App:
    """The commands, each imported when it is needed."""
    root = App(name="rasp", help=HELP, version=__version__, help_format="plaintext", suppress_keyboard_interrupt=False)
    root.command("rasp.cli.stat:stat", name="stat", help="Count a model, layer by layer.")
    root.command("rasp.cli.fits:fits", name="fits", help="Will it fit a machine's memory, and with which batch?")
    root.command("rasp.cli.explain:explain", name="explain", help="Where and why two ways of counting differ.")
    root.command(
        "rasp.cli.reproduce:reproduce", name="reproduce", help="Numbers that older tools published, computed again."
    )
    root.command("rasp.cli.calibrate:calibrate", name="calibrate", help="Measure this machine's ceilings, once.")
    root.command("rasp.cli.sweep:sweep", name="sweep", help=examples.SWEEP)
    for name, words in (
        ("columns", "What can be asked about a model."),
        ("conventions", "The ways of counting, with their sources."),
        ("machines", "The machines that can be predicted for, with their ceilings."),
        ("env", "Versions and devices, for a bug report."),
    ):
        root.command(f"rasp.cli.lists:{name}", name=name, help=words)
    root.command("rasp.cli.zoo:ZOO", name="zoo", help=examples.ZOO)
    return root


def run(arguments: Sequence[str]) -> int:
    """Run one command; gives its exit code."""
    tokens = [token for token in arguments if token != "--traceback"]
    try:
        code = app()(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _said(error, USAGE, tokens is not arguments and len(tokens) < len(arguments))
    except RaspError as error:
        return _said(error, _code(error), len(tokens) < len(arguments))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: nothing more to flush
        return OK
    return code if isinstance(code, int) else OK


def main() -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without these characters shows the rest
    code = run(sys.argv[1:])
    sys.stdout.flush()
    sys.exit(code)


def say(words: str) -> None:
    """Something for the person, not for what reads the output."""
    sys.stderr.write(f"rasp: {words}\n")


def _said(error: Exception, code: int, with_traceback: bool) -> int:
    """Tell an error in one sentence; its traceback where that was asked for."""
    if with_traceback:
        import traceback

        traceback.print_exception(error)
    else:
        say(" ".join(str(error).split()))
    return code


def _code(error: RaspError) -> int:
    if isinstance(error, UncountedError):
        return FOUND
    if isinstance(error, CellsFailed):
        return PARTIAL
    if isinstance(error, FileError):
        return MODEL
    return USAGE if isinstance(error, InputError) else MODEL


def write(text: Any) -> None:
    """Something for what reads the output."""
    sys.stdout.write(str(text))
