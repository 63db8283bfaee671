"""A server on a port of its own, for as long as a test needs it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, TypeVar

ServerT = TypeVar("ServerT", bound=TCPServer)


@contextmanager
def serving(server: ServerT) -> Iterator[ServerT]:
    """Requests are answered within the block, which may end in any way.

    A server that is closed and still served takes a processor until the process ends.
    """
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving_with(handler: Callable[..., Any]) -> Iterator[str]:
    """Requests are answered by objects of `handler`; gives the URL."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"
