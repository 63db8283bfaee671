"""Signing in by the header of a proxy: from its address alone, and once in a request."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from decoder_service.shell.settings import load_settings
from rappor_server.errors import SettingsError
from tests.decoder_service.support import Running, assert_answer, running

USER, GROUPS = "X-Remote-User", "X-Remote-Groups"
PROXY, STRANGER = "127.0.0.1", "127.0.0.2"
SETTINGS: dict[str, Any] = {"user_header": USER, "groups_header": GROUPS}
ROLES: dict[str, Any] = {"oidc_admins": ("heads",), "oidc_analysts": ("data",)}
COOKIE = "rappor_decoder_session"


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("proxied")
    given = {**SETTINGS, **ROLES, "forwarded_allow_ips": (PROXY, "192.0.2.0/24")}
    with running(f"sqlite:///{folder}/d.sqlite", **given) as served:
        yield served


def browser(proxied: Running, address: str) -> httpx.Client:
    return httpx.Client(base_url=proxied.url, transport=httpx.HTTPTransport(local_address=address))


@pytest.mark.parametrize(("groups", "role"), [("data", "analyst"), ("data, heads", "admin")])
def test_the_header_of_the_proxy_makes_a_session(proxied: Running, groups: str, role: str) -> None:
    with browser(proxied, PROXY) as client:
        page = client.get("/sign-in?next=/lists", headers={USER: "olga", GROUPS: groups})
        assert 'content="0; url=/lists"' in page.text
        assert client.get("/v1/session").json() == {"name": "olga", "role": role, "key_id": ""}
        origin = {"Origin": proxied.url}
        left = client.post("/sign-out", headers=origin)
        assert left.headers["location"] == "/sign-in?left=1"
        again = client.get(left.headers["location"], headers={USER: "olga", GROUPS: groups})
        assert "Sign in again" in again.text
        assert client.get("/v1/session").status_code == 401


def test_a_forged_header_makes_nobody_anybody(proxied: Running) -> None:
    forged = {USER: "olga", GROUPS: "heads"}
    for address, more in ((STRANGER, {}), (STRANGER, {"X-Forwarded-For": PROXY})):
        with browser(proxied, address) as client:
            page = client.get("/sign-in", headers=forged | more)
            assert "set-cookie" not in page.headers
            assert 'name="key"' in page.text
            assert client.get("/v1/session", headers=forged | more).status_code == 401
            assert client.get("/lists", headers=forged | more).status_code == 303


@pytest.mark.parametrize("twice", [USER, GROUPS])
def test_a_header_beside_that_of_the_proxy_is_refused(proxied: Running, twice: str) -> None:
    sent = [(USER, "vera"), (GROUPS, "data"), (twice, "heads")]
    with browser(proxied, PROXY) as client:
        page = client.get("/sign-in", headers=sent)
        assert page.status_code == 401
        assert COOKIE not in page.headers.get("set-cookie", "")
        assert "must replace" in page.text


def test_who_lost_the_group_or_is_kept_out_is_signed_out(proxied: Running) -> None:
    with browser(proxied, PROXY) as client, proxied.client("root") as root:
        client.get("/sign-in", headers={USER: "nina", GROUPS: "data"})
        assert client.get("/lists").status_code == 200
        assert client.get("/sign-in", headers={USER: "nina", GROUPS: "none"}).status_code == 403
        assert client.get("/v1/session").status_code == 401
        rows = root.get("/v1/identities").json()["identities"]
        (nina,) = (row for row in rows if row["name"] == "nina")
        root.post(f"/v1/identities/{nina['person_id']}/keep-out", json={"out": True})
        assert_answer(
            client.get("/sign-in", headers={USER: "nina", GROUPS: "data"}), 401, "has blocked you"
        )


def test_a_name_of_the_proxy_is_not_the_person_of_a_key(proxied: Running) -> None:
    with browser(proxied, PROXY) as client:
        client.get("/sign-in", headers={USER: "ana", GROUPS: "data"})
        assert client.get("/v1/session").json()["name"].startswith("ana (")


@pytest.mark.parametrize("trusted", [(), ("0.0.0.0/0",), (PROXY, "::/0")])
def test_it_is_refused_without_addresses(trusted: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match=r"user_header = 'X-Remote-User' needs forwarded_allow"):
        load_settings(**SETTINGS, **ROLES, forwarded_allow_ips=trusted)
    with pytest.raises(SettingsError, match="user_header: no one would get a role"):
        load_settings(**SETTINGS, forwarded_allow_ips=(PROXY,))
