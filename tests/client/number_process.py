"""A device that adds to a counter until it is killed. Prints a line for each: counted, or waiting.

usage: python number_process.py STATE_DIR METRICS_FILE NOW
"""

from __future__ import annotations

import sys

from client_sdk import Client

if __name__ == "__main__":
    state_dir, metrics, now = sys.argv[1:]
    client = Client.open(
        metrics,
        state_dir=state_dir,
        collector="http://127.0.0.1:9",
        consent=True,
        development=True,
        clock=lambda: float(now),
    )
    while True:
        print("added" if client.add("crashes") else "waits", flush=True)
