"""Pages of other origins: only those that are listed, exactly, without credentials, over HTTP."""

import socket

import httpx
import pytest

from collector.settings import load_settings
from rappor_server.errors import SettingsError
from tests.collector.support import Sender, Server, ServerMaker, make_metric

LISTED = "https://app.example.org"
PREFLIGHT = {
    "Origin": LISTED,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-encoding,content-type",
}
METRIC = make_metric()


def named(answer: httpx.Response) -> dict[str, str]:
    return {k: v for k, v in answer.headers.items() if k.startswith("access-control")}


def ask(server: Server, **changes: str) -> httpx.Response:
    names = {"origin": "Origin", "method": "Access-Control-Request-Method"}
    headers = PREFLIGHT | {names[key]: value for key, value in changes.items()}
    return server.http.request("OPTIONS", "/v1/reports", headers=headers)


def test_a_listed_origin_sends_and_reads(serving: ServerMaker, sender: Sender) -> None:
    with serving([METRIC], allowed_origins=[LISTED]) as server:
        asked = ask(server)
        assert asked.status_code == 200
        assert named(asked) == {
            "access-control-allow-origin": LISTED,
            "access-control-allow-methods": "POST",
            "access-control-allow-headers": "Accept, Accept-Language, Authorization, "
            "Content-Encoding, Content-Language, Content-Type",
            "access-control-max-age": "7200",
        }
        assert asked.headers["vary"].startswith("Origin")
        body = sender.body(sender.reports(METRIC, 3))
        headers = {"Origin": LISTED, "Content-Type": "application/json"}
        sent = server.http.post("/v1/reports", content=body, headers=headers)
        assert sent.status_code == 200
        assert [r["status"] for r in sent.json()["results"]] == ["accepted"] * 3
        assert sent.headers["access-control-allow-origin"] == LISTED
        assert sent.headers["vary"] == "Origin"
        refused = server.http.post("/v1/reports", content=b"x", headers=headers)
        assert refused.status_code == 400
        assert refused.headers["access-control-allow-origin"] == LISTED


def test_only_exact_matches_are_let_in(serving: ServerMaker) -> None:
    with serving([METRIC], allowed_origins=[LISTED]) as server:
        for origin in (
            "https://app.example.org.evil.example",
            "https://evil-app.example.org",
            "http://app.example.org",
            "HTTPS://APP.EXAMPLE.ORG",
            "null",
            "*",
        ):
            answer = ask(server, origin=origin)
            assert answer.status_code == 400, origin
            assert "access-control-allow-origin" not in answer.headers
            sent = server.http.post("/v1/reports", content=b"x", headers={"Origin": origin})
            assert "access-control-allow-origin" not in sent.headers
            assert sent.headers["vary"] == "Origin"


def test_none_is_listed_by_default(serving: ServerMaker) -> None:
    with serving([METRIC]) as server:
        assert ask(server).status_code == 405
        sent = server.http.post("/v1/reports", content=b"x", headers={"Origin": LISTED})
        assert named(sent) == {}
        assert "vary" not in sent.headers


def test_only_reports_are_opened_and_only_to_post(serving: ServerMaker) -> None:
    with serving([METRIC], allowed_origins=[LISTED]) as server:
        for method in ("GET", "PUT", "DELETE", "post"):
            assert ask(server, method=method).status_code == 400
        for path in ("/v1/metrics", "/v1/keys", "/metrics", "/healthz", "/v1/reports/"):
            assert named(server.http.request("OPTIONS", path, headers=PREFLIGHT)) == {}
            assert named(server.http.get(path, headers={"Origin": LISTED})) == {}


def test_a_preflight_needs_no_key_or_database(serving: ServerMaker) -> None:
    with serving([METRIC], allowed_origins=[LISTED], require_keys=True) as server:
        for _ in range(100):
            assert ask(server).status_code == 200
        head = "".join(f"{name}: {value}\r\n" for name, value in PREFLIGHT.items())
        request = f"OPTIONS /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n{head}\r\n"
        address = (server.http.base_url.host, server.http.base_url.port)
        with socket.create_connection(address, timeout=5) as connection:
            connection.sendall(request.encode())  # and never the body
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "null",
        "https://App.example.org",
        "https://*.example.org",
        "https://app.example.org:port",
        "https://app.example.org:443",
        "https://app.example.org/",
        "http://app.example.org",
        "http://localhost.example.org",
        "file://host",
    ],
)
def test_an_inexact_origin_is_refused_at_start(origin: str) -> None:
    with pytest.raises(SettingsError, match="is not an exact origin as browsers write it"):
        load_settings(allowed_origins=[origin])


def test_https_extensions_and_this_machine_are_taken() -> None:
    origins = (
        LISTED,
        "https://app.example.org:8443",
        "chrome-extension://abcdefghijklmnop",
        "http://localhost:3000",
        "http://127.0.0.1:8080",
        "http://[::1]:8080",
        "https://xn--bcher-kva.example",
    )
    assert load_settings(allowed_origins=origins).allowed_origins == origins


def test_no_answer_allows_credentials(serving: ServerMaker) -> None:
    with serving([METRIC], allowed_origins=[LISTED]) as server:
        cookie = {"Cookie": "session=1", "Origin": LISTED}
        for answer in (ask(server), server.http.post("/v1/reports", headers=cookie)):
            assert "access-control-allow-credentials" not in answer.headers
            assert "set-cookie" not in answer.headers
