"""Ports for programs that cannot choose a free one and report which it is."""

import random
import socket
from contextlib import suppress

PORTS = range(20_000, 32_768)  # Linux gives any other socket one from 32,768 on
_given: set[int] = set()


def free_port() -> int:
    """A port that no program listens on, nor soon: none that the system gives to connections."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in _given:
                _given.add(port)
                return port
