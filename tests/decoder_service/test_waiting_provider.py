"""An identity provider that does not answer keeps nobody else waiting."""

import socket
import threading
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.decoder_service.support import running
from tests.waiting import until

MANY = 60  # more than the service has threads


@pytest.mark.long
def test_a_provider_that_hangs_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    """Anyone may begin a sign-in: those who wait for the provider hold no thread."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        issuer = f"http://127.0.0.1:{silent.getsockname()[1]}"
        given = {
            "public_url": "http://127.0.0.1",
            "oidc_issuer": issuer,
            "oidc_client_id": "decoder",
            "oidc_everyone": "viewer",
        }
        with running(f"sqlite:///{tmp_path}/d.sqlite", **given) as served:
            statuses: list[int] = []

            def begin() -> None:
                connection = HTTPConnection(urlsplit(served.url).netloc, timeout=60)
                connection.request("GET", "/sign-in/provider")
                statuses.append(connection.getresponse().status)
                connection.close()

            askers = [threading.Thread(target=begin, daemon=True) for _ in range(MANY)]
            for one in askers:
                one.start()
            with served.client("ana") as ana:
                assert ana.get("/v1/lists", timeout=2).status_code == 200
            until(lambda: len(statuses) == MANY, 20)
            assert statuses == [503] * MANY
