"""An identity provider that does not answer holds few of those who want to sign in."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import httpx
import pytest

from tests.decoder_service.support import running
from tests.waiting import until

MANY = 60  # more than the service has threads


@pytest.mark.long
def test_a_provider_that_hangs_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    """Anyone may begin a sign-in: those who wait for the provider are few at a time."""
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
                answer = httpx.get(f"{served.url}/sign-in/provider", timeout=60)
                statuses.append(answer.status_code)

            askers = [threading.Thread(target=begin, daemon=True) for _ in range(MANY)]
            for one in askers:
                one.start()
            until(lambda: len(statuses) >= MANY - 8, 4)
            assert statuses == [503] * (MANY - 8)
            with served.client("ana") as ana:
                assert ana.get("/v1/lists", timeout=2).status_code == 200
