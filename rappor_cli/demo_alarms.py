"""The receiver of the demo's alarm: a webhook on this machine that prints what it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rappor_core.text import visible


@contextmanager
def listening_alarms(say: Callable[[str], None]) -> Iterator[str]:
    """Listen on a free port of this machine; yield the URL for an alarm."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            values = ", ".join(map(visible, told.get("values", [])))
            day = told.get("window", {}).get("first_day", "")
            say(f"alarm: {told['alarm']}, {day}: {told['text']} ({values})")
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            """Write no line of each request to stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/alarms"
        finally:
            server.shutdown()
