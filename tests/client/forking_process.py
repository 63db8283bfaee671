"""Forks while the sending thread is in the middle of an import, which is made slow here.

usage: python forking_process.py STATE_DIR COLLECTOR METRICS_FILE MODULE PART
PART: what MODULE imports; the fork happens while it waits for that.
Exits with 0 where the child can use MODULE.
"""

import os
import sys
import threading
import time
from importlib import import_module
from typing import Any

from client_sdk import Client, Delivery


def main(state_dir: str, collector: str, metrics: str, module: str, part: str) -> int:
    loading = threading.Event()

    def slowly(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "import" and arguments[0] == part:
            loading.set()
            time.sleep(0.2)

    sys.addaudithook(slowly)
    delivery = Delivery(mean_delay=0, first_pause=0.05, timeout=10)
    choices = {"state_dir": state_dir, "collector": collector, "delivery": delivery}
    client = Client.open(metrics, consent=True, **choices)
    assert client.record("homepage", "a")
    assert loading.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(getattr(import_module(module).__spec__, "_initializing", False))
    _, status = os.waitpid(child, 0)
    assert client.flush(20), client.last_error
    client.close()
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
