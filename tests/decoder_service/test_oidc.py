"""Signing in through a provider of OpenID Connect that runs: roles, attacks, sessions, sign-out."""

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.decoder_service.oidc_people import (
    SECRET,
    Browser,
    browser,
    provider_folder,
    served_with_provider,
)
from tests.decoder_service.support import Running, assert_answer

__all__ = ["provider_folder"]
COOKIE = "rappor_decoder_session"
BEGUN = "rappor_decoder_sign_in"


pytestmark = pytest.mark.long  # a provider from npm; `test_oidc_forged` has one in this process


@pytest.fixture(scope="module")
def served(provider_folder, tmp_path_factory) -> Iterator[tuple[Running, str]]:
    folder = tmp_path_factory.mktemp("service")
    with served_with_provider(provider_folder, f"sqlite:///{folder}/d.sqlite") as found:
        yield found


def who(client: httpx.Client, url: str) -> dict[str, str]:
    answer = client.get(f"{url}/v1/session")
    return answer.json() if answer.status_code == 200 else {}


@pytest.mark.parametrize(
    ("name", "role"), [("olga", "admin"), ("adam", "analyst"), ("vera", "viewer")]
)
def test_a_group_gives_the_role(served: tuple[Running, str], name: str, role: str) -> None:
    url = served[0].url
    with browser() as one:
        page = one.sign_in(url, name)
        assert page.status_code == 200
        assert 'content="0; url=/lists"' in page.text
        cookie = next(c for c in page.headers.get_list("set-cookie") if c.startswith(COOKIE))
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert who(one.http, url) == {"name": name, "role": role, "key_id": ""}
        assert one.go(f"{url}/sign-in/provider").status_code == 200
    with served[0].client("root") as root:
        known = root.get("/v1/identities").json()["identities"]
        assert [(row["subject"], row["role"]) for row in known if row["name"] == name] == [
            (name, role)
        ]


def state_of(cookie: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(cookie.partition("=")[2].partition(".")[0]))
    return found


def test_what_the_browser_is_sent_with(served: tuple[Running, str]) -> None:
    """State, nonce and a challenge, each new; no secret; nothing stored."""
    seen = []
    with browser() as one:
        for _ in range(2):
            answer = one.http.get(f"{served[0].url}/sign-in/provider?next=//evil.example")
            asked = parse_qs(urlsplit(answer.headers["location"]).query)
            assert asked["code_challenge_method"] == ["S256"]
            assert asked["response_type"] == ["code"]
            assert SECRET not in answer.headers["location"]
            cookie = answer.headers["set-cookie"]
            assert "httponly" in cookie
            assert "samesite=lax" in cookie
            *_, pending = state_of(cookie).values()
            assert pending["data"]["there"] == ""
            assert pending["data"]["code_verifier"] not in answer.headers["location"]
            seen.append({asked["state"][0], asked["nonce"][0], asked["code_challenge"][0]})
    assert len(seen[0] | seen[1]) == 6


def returned(one: Browser, url: str, name: str) -> str:
    """The address that the provider sends a browser back to, which was not opened."""
    page = one.go(f"{url}/sign-in/provider")
    page = one.submit(page, login=name, password="any")
    answer = one.http.post(page.url, data={"prompt": "consent"})
    while "/sign-in/provider/back" not in answer.headers["location"]:
        answer = one.http.get(answer.headers["location"])
    return str(answer.headers["location"])


def test_nobody_else_ends_a_sign_in(served: tuple[Running, str]) -> None:
    """Without the cookie of its beginning, with that of another, or a second time: no session."""
    url = served[0].url
    with browser() as one, browser() as other:
        address = returned(one, url, "adam")
        other.go(f"{url}/sign-in/provider")
        for attacker in (other, Browser(httpx.Client())):
            answer = attacker.http.get(address)
            assert answer.status_code == 401
            assert "did not start here" in answer.text
            assert COOKIE not in answer.cookies
        attacker.http.close()
        kept = {BEGUN: one.http.cookies[BEGUN]}
        assert one.http.get(address).status_code == 200
        with httpx.Client(cookies=kept) as late:
            assert_answer(late.get(address), 401, "invalid_grant")


@pytest.mark.parametrize("change", ["state", "iss", "code", "none", "cookie"])
def test_what_was_changed_on_the_way_is_refused(served: tuple[Running, str], change: str) -> None:
    with browser() as one:
        address = returned(one, served[0].url, "adam")
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert query["iss"] == served[1]
        if change in ("state", "iss", "code"):
            query[change] = "x" * 64
        elif change == "none":
            del query["code"]
        else:
            text = one.http.cookies[BEGUN]
            one.http.cookies.clear()
            one.http.cookies[BEGUN] = text[:-2] + ("AA" if text[-2:] != "AA" else "BB")
        page = one.http.get(f"{served[0].url}/sign-in/provider/back", params=query)
        assert page.status_code == 401, page.text
        assert who(one.http, served[0].url) == {}


def test_signing_out_ends_both_sessions(served: tuple[Running, str]) -> None:
    url, issuer = served[0].url, served[1]
    with browser() as one:
        one.sign_in(url, "vera")
        kept = {COOKIE: one.http.cookies[COOKIE]}
        answer = one.http.post(f"{url}/sign-out", headers={"Origin": url})
        assert answer.headers["location"] == "/sign-in?left=1"
        with httpx.Client(cookies=kept) as thief:
            assert who(thief, url) == {}
        page = one.http.get(f"{url}/sign-in?left=1")
        assert f'href="{issuer}/session/end?client_id=decoder&amp;post_logout' in page.text
        end = page.text.partition(f'href="{issuer}')[2].partition('"')[0].replace("&amp;", "&")
        asked = one.go(issuer + end)
        left = one.submit(asked, logout="yes")
        assert str(left.url).startswith(f"{url}/sign-in")
        assert "Sign in with" in left.text
        again = one.go(f"{url}/sign-in/provider")  # the provider asks who it is once more
        assert "password" in again.text
