"""`python -m rappor_cli`, and the console script `rappor`."""

import sys

from rappor_cli.main import main


def run() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(main())


if __name__ == "__main__":
    run()
