"""A server on a separate port, for as long as a test needs it, and what it answers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, TypeVar


class Handler(BaseHTTPRequestHandler):
    """Answers requests, and logs nothing."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        """headers: by their names, with `_` for each hyphen."""
        self.send_response(status)
        for name, value in ({"Content_Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


ServerT = TypeVar("ServerT", bound=TCPServer)


@contextmanager
def serving(server: ServerT) -> Iterator[ServerT]:
    """Requests are answered within the block, which may end in any way."""
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
