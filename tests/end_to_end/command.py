"""`rappor` in this process, with what it printed."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple

from rappor_cli.main import main


class Printed(NamedTuple):
    """What a command wrote to its two streams."""

    stdout: str
    stderr: str


def run(*words: str, returns: int = 0) -> Printed:
    """Run a command. returns: the exit code that it must have."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(words))
    assert code == returns, err.getvalue()
    return Printed(out.getvalue(), err.getvalue())
