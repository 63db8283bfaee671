"""A device in a separate process, for tests that kill it. Prints what it has recorded.

usage: python device_process.py STATE_DIR COLLECTOR METRICS_FILE NUMBER [WHAT [RELAY KEYS]]
RELAY, KEYS: the address of a relay and a file of its collector's keys.
WHAT: `record`, `flush` or `close` and open after each ten, `leave` unclosed at a line on stdin.
"""

import sys
import time

from client_sdk import Client, Delivery, Relay


def record(client: Client) -> None:
    """Record; where another process held the state, until the sending thread has recorded it."""
    if client.record("homepage", "a"):
        return
    assert "waits in memory" in client.last_refusal, client.inspect()
    while client.inspect()["held"]:
        time.sleep(0.01)


def main(
    state_dir: str, collector: str, metrics: str, number: int, what: str = "record", *behind: str
) -> None:
    delivery = Delivery(mean_delay=0, first_pause=0.05, timeout=10, batch_reports=7)
    choices = {"consent": True, "development": True, "delivery": delivery}
    choices["relay"] = Relay(*behind) if behind else None

    def open_client() -> Client:
        return Client.open(metrics, state_dir=state_dir, collector=collector, **choices)

    client = open_client()
    print("open", flush=True)
    for count in range(1, number + 1):
        record(client)
        print("recorded", flush=True)  # the test counts whole lines: acknowledged to the app
        if what == "flush" and count % 10 == 0:
            client.flush(0.05)
        if what == "close" and count % 10 == 0:
            client.close()
            client = open_client()
    if what == "leave":
        sys.stdin.readline()
        print("leaving", flush=True)
        return
    if what == "flush":
        client.flush(20)  # so that closing breaks off no exchange
    client.close()
    print("closed", flush=True)


if __name__ == "__main__":
    state_dir, collector, metrics, number, *what = sys.argv[1:]
    main(state_dir, collector, metrics, int(number), *what)
