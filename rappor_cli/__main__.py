"""The entry point for `python -m rappor_cli` and the console script `rappor`.

`run` takes over Ctrl-C before any command is imported, because imports take seconds on a busy
machine. Processes that `multiprocessing` starts import this module first, so they use this
project's packages.
"""

import io
import os
import signal
import sys

from rappor_core.own_packages import prefer_own_packages

_STOPPED = 130  # the exit code that shells report for a program ended by Ctrl-C

prefer_own_packages()


def run() -> None:
    """Run the command line and exit with its code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise SIGINT is ignored
        signal.signal(signal.SIGINT, _stop)
    from rappor_cli.main import main
    from rappor_core.failures import failure_sentence

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for characters outside its encoding
    try:
        code = main(started=_let_commands_stop)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has exited, as in `rappor ... | head`: not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that exit can flush
        code = 1
    except OSError as error:  # standard output is full
        print(f"rappor: {failure_sentence(error)}", file=sys.stderr)
        os._exit(1)  # a normal exit would flush again, and print another error
    sys.exit(code)


def _stop(_number: int, _frame: object) -> None:
    """Exit immediately: no work has started, and an import might swallow an exception."""
    os.write(2, b"rappor: stopped\n")
    os._exit(_STOPPED)


def _let_commands_stop() -> None:
    """Make Ctrl-C raise an exception again, so that commands can clean up."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    run()
