"""`python -m rappor_cli`, and the console script `rappor`.

Imports no command before `run` has taken over Ctrl-C: that takes seconds on a busy machine.
A process that `multiprocessing` starts imports this module first, and so finds our packages, too.
"""

import io
import os
import signal
import sys

from rappor_core.own_packages import prefer_own_packages

_STOPPED = 130  # what shells give for a program that Ctrl-C ended

prefer_own_packages()


def run() -> None:
    """Run the command line and exit with its code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        signal.signal(signal.SIGINT, _stop)
    from rappor_cli.main import main
    from rappor_core.failures import failure_sentence

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # values in letters that it cannot show
    try:
        code = main(started=_let_commands_stop)
        sys.stdout.flush()
    except BrokenPipeError:  # its reader has gone, as in `rappor ... | head`: not worth a word
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that exit can flush
        code = 1
    except OSError as error:  # standard output is full
        print(f"rappor: {failure_sentence(error)}", file=sys.stderr)
        os._exit(1)  # a normal exit would try to flush again, and complain again
    sys.exit(code)


def _stop(_number: int, _frame: object) -> None:
    """Leave at once: nothing has begun, and an import may swallow an exception."""
    os.write(2, b"rappor: stopped\n")
    os._exit(_STOPPED)


def _let_commands_stop() -> None:
    """Commands clean up after themselves, for which Ctrl-C is an exception."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    run()
