"""Keys and sessions of browsers: what holds, what ends, and writes from other sites."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Role
from decoder_service.shell.app import create_app
from decoder_service.shell.requests import origin_of
from decoder_service.shell.settings import ServiceSettings
from rappor_server.errors import SettingsError
from tests.decoder_service.support import Running, running

OTHERS = ["https://evil.example", "null", "", "http://127.0.0.1:1", "http://127.0.0.1"]


@contextmanager
def browser(served: Running, key: str) -> Iterator[httpx.Client]:
    """A client with the cookie of a session and no key."""
    with httpx.Client(base_url=served.url, timeout=20) as client:
        answer = client.post("/sign-in", data={"key": key}, headers={"Origin": served.url})
        assert answer.status_code == 303, answer.text
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Secure" not in cookie
        yield client


def test_sessions_work_from_own_pages_only(served: Running) -> None:
    with browser(served, served.keys["ana"]) as client:
        assert client.get("/v1/session").json()["name"] == "ana"
        made = client.post("/v1/lists?name=s", content=b"a\n", headers={"Origin": served.url})
        assert made.status_code == 201
        path = f"/v1/lists/{made.json()['id']}"
        for origin in OTHERS:
            assert client.delete(path, headers={"Origin": origin}).status_code == 403
        assert client.delete(path).status_code == 403  # a browser always says its origin
        assert client.delete(path, headers={"Origin": served.url}).status_code == 200


def test_another_site_signs_nobody_in(served: Running) -> None:
    with served.client(None) as client:
        for origin in OTHERS:
            body = {"key": served.keys["ana"]}
            answer = client.post("/sign-in", data=body, headers={"Origin": origin})
            assert answer.status_code == 403
            assert "set-cookie" not in answer.headers


def test_signing_out_ends_the_session(served: Running) -> None:
    with browser(served, served.keys["ana"]) as client:
        cookies = dict(client.cookies)
        assert client.post("/sign-out", headers={"Origin": served.url}).status_code == 303
        client.cookies.update(cookies)  # kept by somebody
        assert client.get("/v1/session").status_code == 401


def test_a_revoked_key_ends_with_its_sessions(served: Running) -> None:
    made = served.service.access.create_key(COMMAND_LINE, "cora", Role.ANALYST)
    with browser(served, made.text) as client:
        served.service.access.revoke_key(COMMAND_LINE, made.key_id)
        assert client.get("/v1/session").status_code == 401
        again = client.post("/sign-in", data={"key": made.text})
        assert again.status_code == 401


@pytest.mark.parametrize("change", ["role", "secret", "id", "scheme", "empty", "collector"])
def test_a_key_that_is_not_quite_one(served: Running, change: str) -> None:
    key = served.keys["ana"]
    sent = {
        "role": f"Bearer {key.replace('analyst', 'admin')}",
        "secret": f"Bearer {key[:-2]}{'aa' if key[-2:] != 'aa' else 'bb'}",
        "id": f"Bearer {key[:11]}{'0' * 16}{key[27:]}",
        "scheme": f"Basic {key}",
        "empty": "Bearer",
        "collector": f"Bearer {key.replace('rd_', 'rk_')}",
    }[change]
    with served.client(None) as client:
        answer = client.get("/v1/session", headers={"Authorization": sent})
    assert answer.status_code == 401
    assert key[30:] not in answer.text


def test_over_https_the_cookie_is_secure(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("https")
    public = "https://decode.example"
    with (
        running(f"sqlite:///{folder}/d.sqlite", public_url=public) as served,
        served.client(None) as client,
    ):
        body, origin = {"key": served.keys["ana"]}, {"Origin": public}
        cookie = client.post("/sign-in", data=body, headers=origin).headers["set-cookie"]
        assert cookie.startswith("__Host-")
        assert "Secure" in cookie
        assert "Domain" not in cookie
        plain = {"Origin": served.url}
        assert client.post("/sign-in", data=body, headers=plain).status_code == 403


@pytest.mark.parametrize(
    ("public", "origin"),
    [
        ("https://Decode.Example:443/", "https://decode.example"),
        ("https://decode.example:8443", "https://decode.example:8443"),
        ("https://b\u00fccher.example", "https://xn--bcher-kva.example"),
        ("https://[2001:DB8::1]:443", "https://[2001:db8::1]"),
    ],
)
def test_public_urls_compare_as_browsers_write_them(public: str, origin: str) -> None:
    assert origin_of(public) == origin


@pytest.mark.parametrize(
    "public",
    ["https://", "https://a:b", "https://:443", "https://[::1", "https://a.example/decoder"],
)
def test_public_urls_without_a_host_are_refused(public: str) -> None:
    with pytest.raises(SettingsError, match="public_url"):
        create_app(ServiceSettings(public_url=public))


def test_acts_and_reads_are_audited_without_secrets(served: Running) -> None:
    with served.client("ana") as ana, served.client("root") as root:
        listed = ana.post("/v1/lists?name=audited", content=b"a\n").json()["id"]
        ana.get(f"/v1/lists/{listed}/content")
        ana.delete(f"/v1/lists/{listed}")
        entries = root.get("/v1/audit?limit=3").json()["entries"]
        whole = root.get("/v1/audit?limit=1000").text
    assert [one["act"] for one in entries] == ["delete-list", "read-list", "create-list"]
    assert {one["actor"] for one in entries} == {"ana"}
    assert not any(key[30:] in whole for key in served.keys.values())
