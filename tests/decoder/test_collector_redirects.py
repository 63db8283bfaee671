"""A key for a collector goes to that collector alone."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from decoder.errors import RemoteError
from decoder.sources.collector_client import ask, ask_json
from tests.http_server import serving


class Target(HTTPServer):
    """Answers with `status` and a Location; what came is in `keys`."""

    def __init__(self, status: int, location: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.location = status, location
        self.keys: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        target = self.server
        assert isinstance(target, Target)
        target.keys.append(self.headers["Authorization"])
        self.send_response(target.status)
        self.send_header("Location", target.location)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None: ...


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_key(status: int) -> None:
    with serving(Target(200, "")) as stranger, serving(Target(status, stranger.url)) as collector:
        for asking in (ask, ask_json):
            with pytest.raises(RemoteError, match=f"answered {status}: it sends on to another"):
                asking(collector.url, "/v1/metrics", key="rk_secret")
        assert collector.keys == ["Bearer rk_secret"] * 2
        assert stranger.keys == []
