"""A provider, or who sits between, that answers with forged ID tokens and lies of who it is."""

from __future__ import annotations

import base64
import hmac
import http.server
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from decoder_service.people.oidc import Provider, RegisteredClient
from decoder_service.people.permissions import Role
from decoder_service.people.provider_roles import Claimed, ProviderRoles
from decoder_service.shell.clock import utc_now
from decoder_service.shell.errors import AuthenticationError, ServiceError, UnavailableError
from tests.http_server import serving_with

CLIENT, SECRET = "decoder", "a-secret-that-the-client-shares-with-the-provider"
OWN = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
FOREIGN = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
ADMIN = {"groups": ["decoder-admins"]}
Change = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass
class Hostile:
    """A provider that says what a test wants."""

    issuer: str = ""
    id_token: Any = ""
    userinfo: tuple[int, bytes] = (200, b"{}")
    metadata: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, bytes]:
        """Status and body of a request."""
        self.asked.append(path)
        if path.endswith("openid-configuration"):
            paths = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
            found = {name: f"{self.issuer}/{name}" for name in paths}
            return 200, json.dumps({"issuer": self.issuer, **found, **self.metadata}).encode()
        if path == "/jwks_uri":
            return 200, json.dumps({"keys": [OWN.as_dict(private=False)]}).encode()
        if path == "/token_endpoint":
            given = {"access_token": "access", "token_type": "Bearer", "id_token": self.id_token}
            return 200, json.dumps(given).encode()
        return self.userinfo


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    one = Hostile()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            status, body = one.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if status == 302:
                self.send_header("Location", f"{one.issuer}/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with serving_with(Handler) as one.issuer:
        yield one


def good(hostile: Hostile, nonce: str) -> dict[str, Any]:
    """The claims of an honest ID token of an admin."""
    now = int(time.time())
    common = {"iss": hostile.issuer, "aud": CLIENT, "sub": "olga", "nonce": nonce}
    return {**common, "iat": now, "exp": now + 300, **ADMIN}


def signed(claims: dict[str, Any], key: Any = OWN, **header: Any) -> str:
    given = {"alg": "RS256", "kid": "one", **header}
    return jwt.encode(given, claims, key, algorithms=[given["alg"]])


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsigned(claims: dict[str, Any], alg: str = "none") -> str:
    return f"{part({'alg': alg, 'kid': 'one'})}.{part(claims)}."


def tampered(claims: dict[str, Any]) -> str:
    """The signature of an honest token under other claims."""
    head, _, signature = signed(claims).split(".")
    return f"{head}.{part({**claims, 'sub': 'mallory'})}.{signature}"


def with_public_key(claims: dict[str, Any]) -> str:
    """Signed by HMAC with the public key, which everybody has, as its secret."""
    text = f"{part({'alg': 'HS256', 'kid': 'one'})}.{part(claims)}"
    mac = hmac.digest(OWN.as_pem(private=False), text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


FORGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another key": lambda claims: signed(claims, FOREIGN),
    "a key that it brings": lambda claims: signed(
        claims, FOREIGN, jwk=FOREIGN.as_dict(private=False), kid="two"
    ),
    "alg none": unsigned,
    "alg None": lambda claims: unsigned(claims, "None"),
    "no signature": lambda claims: signed(claims).rpartition(".")[0] + ".",
    "the client's secret": lambda claims: signed(claims, OctKey.import_key(SECRET), alg="HS256"),
    "the public key as a secret": with_public_key,
    "other claims": tampered,
    "no token": lambda _: None,
    "no text": lambda _: {"sub": "olga"},
    "no JWT": lambda _: "a.b.c",
    "claims that are a list": lambda _: unsigned(["sub"]),  # type: ignore[arg-type]
}
CHANGED: dict[str, dict[str, Any]] = {
    "wrong issuer": {"iss": "https://evil.example"},
    "issuer with a slash": {"iss": "SLASH"},
    "no issuer": {"iss": None},
    "wrong audience": {"aud": "another"},
    "audience of others": {"aud": ["another", "third"]},
    "no audience": {"aud": None},
    "two audiences, of another party": {"aud": [CLIENT, "another"], "azp": "another"},
    "wrong nonce": {"nonce": "x" * 64},
    "no nonce": {"nonce": None},
    "expired": {"exp": -61},
    "no end": {"exp": None},
    "end that is no number": {"exp": "soon"},
    "not yet": {"nbf": 3600},
    "made in the future": {"iat": 3600},
    "no time": {"iat": None},
    "no subject": {"sub": None},
    "subject that is no text": {"sub": 7},
    "empty subject": {"sub": ""},
    "hash of another access token": {"at_hash": "x" * 22},
}


def provider_of(hostile: Hostile) -> Provider:
    client = RegisteredClient(hostile.issuer, CLIENT, SECRET, "openid", "http://127.0.0.1/back")
    groups = {Role.ADMIN: frozenset({"decoder-admins"}), Role.VIEWER: frozenset({"staff"})}
    return Provider(client, ProviderRoles("groups", groups, None), utc_now)


def finish(hostile: Hostile, token: Callable[[dict[str, Any]], Any]) -> Claimed:
    """A sign-in that the provider ends with this token."""
    provider = provider_of(hostile)
    _, pending = provider.begin("/lists")
    hostile.id_token = token(good(hostile, pending.nonce))
    return provider.finish(pending, {"state": pending.state, "code": "c"})


def test_an_honest_token_is_taken(hostile: Hostile) -> None:
    """So that the refusals below are of what was forged."""
    assert finish(hostile, signed) == Claimed("olga", "olga", Role.ADMIN)


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_signature_is_refused(hostile: Hostile, name: str) -> None:
    with pytest.raises(AuthenticationError):
        finish(hostile, FORGED[name])


@pytest.mark.parametrize("name", CHANGED)
def test_claims_of_another_sign_in_are_refused(hostile: Hostile, name: str) -> None:
    def changed(claims: dict[str, Any]) -> str:
        given = dict(CHANGED[name])
        if given.get("iss") == "SLASH":
            given["iss"] = f"{hostile.issuer}/"
        for at in ("exp", "nbf", "iat"):
            if isinstance(given.get(at), int):
                given[at] += int(time.time())
        whole = {**claims, **given}
        return signed({name: value for name, value in whole.items() if value is not None})

    with pytest.raises(AuthenticationError) as refused:
        finish(hostile, changed)
    assert "evil" not in str(refused.value)


def without_groups(claims: dict[str, Any]) -> str:
    return signed({name: value for name, value in claims.items() if name != "groups"})


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, {"sub": "mallory", **ADMIN}, AuthenticationError),
        (200, ADMIN, AuthenticationError),
        (200, {"sub": ["olga"], **ADMIN}, AuthenticationError),
        (200, [{"sub": "olga", **ADMIN}], AuthenticationError),
        (200, {"sub": "olga", "groups": {"decoder-admins": True}}, ServiceError),
        (200, {"sub": "olga", "groups": [["decoder-admins"], 7, None]}, ServiceError),
        (200, None, AuthenticationError),
        (200, b"<html>", UnavailableError),
        (200, b"\xff\xfe", UnavailableError),
        (401, {"sub": "olga", **ADMIN}, UnavailableError),
        (500, {"sub": "olga", **ADMIN}, UnavailableError),
        (302, {"sub": "olga", **ADMIN}, UnavailableError),
    ],
)
def test_a_lie_of_the_userinfo_endpoint_is_refused(
    hostile: Hostile, status: int, body: Any, error: type[Exception]
) -> None:
    """Of another person, of nobody, of no form: no role comes of it."""
    hostile.userinfo = status, body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(error):
        finish(hostile, without_groups)
    assert "/userinfo_endpoint" in hostile.asked
    assert "/elsewhere" not in hostile.asked


def test_userinfo_adds_to_the_token_only(hostile: Hostile) -> None:
    told = {"sub": "olga", "preferred_username": "someone else", **ADMIN}
    hostile.userinfo = 200, json.dumps(told).encode()
    found = finish(hostile, lambda claims: without_groups({**claims, "preferred_username": "olga"}))
    assert found == Claimed("olga", "olga", Role.ADMIN)
    low = finish(hostile, lambda claims: signed({**claims, "groups": ["staff"]}))
    assert low.role is Role.VIEWER  # the token told: nobody is asked to raise it


def test_access_tokens_go_to_safe_addresses_alone(hostile: Hostile) -> None:
    """Before, any address that the provider gave for userinfo was asked, with the token."""
    for address in ("http://evil.example/userinfo", "ftp://127.0.0.1/", "//evil.example"):
        hostile.metadata = {"userinfo_endpoint": address}
        with pytest.raises(UnavailableError):
            finish(hostile, without_groups)


def test_providers_with_another_issuer_are_refused(hostile: Hostile) -> None:
    hostile.metadata = {"issuer": "https://id.example"}
    with pytest.raises(UnavailableError):
        provider_of(hostile).begin("")
