"""The entry point of `rappor`, which runs a command and reports errors in one line.

Exit codes: 0 success, 1 rejected or failed with a one-line reason, 2 wrong usage, 130 Ctrl-C.
"""

import sys
from collections.abc import Callable

from rappor_core.errors import RapporError
from rappor_core.failures import failure_sentence
from rappor_core.own_packages import OWN_PACKAGES

_LIBRARY_ERRORS = (
    ("sqlite3", "Error"),
    ("sqlalchemy.exc", "SQLAlchemyError"),
    ("json", "JSONDecodeError"),
    ("csv", "Error"),
    ("zlib", "error"),
    ("tomllib", "TOMLDecodeError"),
)
_STOPPED = 130  # as in `commands`, which may not be loaded


def main(arguments: list[str] | None = None, started: Callable[[], None] | None = None) -> int:
    """Run `rappor` and return its exit code.

    Args:
        arguments: The words of the command line; by default the process's arguments.
        started: A function that is called when a command is loaded and may run.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    name = next((word for word in arguments if not word.startswith("-")), "")
    try:
        from rappor_cli.commands import run_command  # typer may be missing

        return run_command(arguments, started)
    except KeyboardInterrupt:  # raised before or after the command itself
        print("rappor: stopped", file=sys.stderr)
        return _STOPPED
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in OWN_PACKAGES:
            raise
        sentence = f"the library {package!r} is missing; pip install 'rappor-telemetry[all]'"
    except RapporError as error:
        sentence = str(error)
    except _failures() as error:
        sentence = failure_sentence(error)
    print(f"rappor {name}: {sentence}", file=sys.stderr)
    return 1


def _failures() -> tuple[type[Exception], ...]:
    """Return the error types that file, database and memory problems raise.

    Any other error is a defect, and keeps its traceback.
    """
    kinds = [OSError, EOFError, UnicodeError, MemoryError, RecursionError]
    for module, kind in _LIBRARY_ERRORS:
        if module in sys.modules:  # a library that is not loaded has raised nothing
            kinds.append(getattr(sys.modules[module], kind))
    return tuple(kinds)
