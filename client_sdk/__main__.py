"""`python -m client_sdk inspect STATE_DIR`: show what a device stores and has sent.

The command changes nothing. Exit codes: 0 success, 1 no readable state, 2 wrong usage.
"""

import argparse
import json
import os
import sys
import threading
from contextlib import closing

from client_sdk.errors import StateError
from client_sdk.inspection import inspect_state, render
from client_sdk.recording.ledger import check_ledger
from client_sdk.storage.directory import StateDirectory


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m client_sdk", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    inspect = commands.add_parser("inspect", help="show the queue, sent reports, and inferences")
    inspect.add_argument("state_dir", help="the directory given to Client.open")
    inspect.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    try:
        directory = StateDirectory(chosen.state_dir)
        if not directory.exists():  # opening the state would create it
            raise StateError(f"{chosen.state_dir} contains no state of this SDK")
        with closing(directory.open(threading.RLock(), check_ledger)) as state:
            account = inspect_state(state)
        print(json.dumps(account, indent=2) if chosen.json else render(account), flush=True)
    except BrokenPipeError:  # the reader has exited, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that exit can flush
        return 1
    except StateError as error:
        print(f"inspect: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
