"""`python -m rappor_cli`, and the console script `rappor`."""

import io
import os
import sys

from rappor_cli.main import main
from rappor_core.failures import failure_sentence


def run() -> None:
    """Run the command line and leave with its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # values in letters that it cannot show
    try:
        code = main()
        sys.stdout.flush()
    except OSError as error:  # standard output is full, or its reader has gone
        print(f"rappor: {failure_sentence(error)}", file=sys.stderr)
        os._exit(1)  # a normal exit would try to flush again, and complain again
    sys.exit(code)


if __name__ == "__main__":
    run()
