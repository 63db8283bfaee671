"""A provider, or who sits between, that forges ID tokens, lies of who it is, or does not answer."""

import base64
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from tests.decoder_service.support import Running, running
from tests.free_ports import free_port
from tests.http_server import Handler, serving_with
from tests.waiting import until

CLIENT, SECRET = "decoder", "a secret: that the client shares/with+the provider %"
OWN = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
FOREIGN = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
ADMIN = {"groups": ["decoder-admins"]}


@dataclass
class Hostile:
    """A provider that says what a test wants."""

    issuer: str = ""
    id_token: Any = ""
    userinfo: tuple[int, bytes] = (200, b"{}")
    metadata: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    more_keys: list[dict[str, str]] = field(default_factory=list)
    authorization: str = ""
    form: str = ""

    def answer(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        if path.endswith("openid-configuration"):
            paths = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
            found = {name: f"{self.issuer}/{name}" for name in paths}
            return 200, json.dumps({"issuer": self.issuer, **found, **self.metadata}).encode()
        if path == "/jwks_uri":
            return 200, json.dumps({"keys": [*self.more_keys, OWN.as_dict(private=False)]}).encode()
        if path == "/token_endpoint":
            given = {"access_token": "access", "token_type": "Bearer", "id_token": self.id_token}
            return 200, json.dumps(given).encode()
        return self.userinfo


@pytest.fixture(scope="module")
def listening() -> Iterator[Hostile]:
    one = Hostile()

    class Endpoints(Handler):
        def do_GET(self) -> None:  # noqa: N802
            form = self.body().decode()
            if self.path == "/token_endpoint":
                one.form, one.authorization = form, self.headers.get("authorization", "")
            status, body = one.answer(self.path)
            moved = {"Location": f"{one.issuer}/elsewhere"} if status == 302 else {}
            self.reply(status, body, Content_Type="application/json", **moved)

        do_POST = do_GET  # noqa: N815

    with serving_with(Endpoints) as one.issuer:
        yield one


@pytest.fixture
def hostile(listening: Hostile) -> Hostile:
    """The provider as it is without the change of a test."""
    fresh = Hostile(listening.issuer)
    listening.__dict__.update(fresh.__dict__)
    return listening


@pytest.fixture(scope="module")
def service(listening: Hostile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    port = free_port()
    given = {
        "port": port,
        "public_url": f"http://127.0.0.1:{port}",
        "oidc_issuer": listening.issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "oidc_admins": ("decoder-admins",),
        "oidc_viewers": ("staff",),
        "tick_seconds": 0,
    }
    database = f"sqlite:///{tmp_path_factory.mktemp('service')}/d.sqlite"
    with running(database, **given) as one:
        yield one


@pytest.fixture
def browser(service: Running) -> Iterator[httpx.Client]:
    """A browser at the service, which asks the provider again."""
    ask_anew(service)
    with httpx.Client(base_url=service.url, timeout=20) as one:
        yield one


def ask_anew(service: Running) -> None:
    service.service.provider.server_metadata = {}


def good(hostile: Hostile, nonce: str) -> dict[str, Any]:
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
    "wrong issuer": {"iss": "https://evil.example"}, "issuer with a slash": {"iss": "SLASH"},
    "no issuer": {"iss": None}, "wrong audience": {"aud": "another"},
    "audience of others": {"aud": ["another", "third"]}, "no audience": {"aud": None},
    "two audiences, of another party": {"aud": [CLIENT, "another"], "azp": "another"},
    "wrong nonce": {"nonce": "x" * 64}, "no nonce": {"nonce": None}, "expired": {"exp": -61},
    "no end": {"exp": None}, "end that is not a number": {"exp": "soon"},
    "not yet": {"nbf": 3600}, "made in the future": {"iat": 3600}, "no time": {"iat": None},
    "no subject": {"sub": None}, "subject that is not text": {"sub": 7},
    "empty subject": {"sub": ""}, "hash of another access token": {"at_hash": "x" * 22},
}  # fmt: skip


def begin(browser: httpx.Client) -> tuple[int, dict[str, str]]:
    """Begin a sign-in; the status and what the provider is asked."""
    answer = browser.get("/sign-in/provider?next=/lists")
    return answer.status_code, dict(parse_qsl(urlsplit(answer.headers.get("location", "")).query))


def finish(
    hostile: Hostile, browser: httpx.Client, token: Callable[[dict[str, Any]], Any]
) -> tuple[int, dict[str, Any], str]:
    """The status of a sign-in that the provider ends with this token, who it is, and the page."""
    status, asked = begin(browser)
    if status != 303:
        return status, {}, ""
    hostile.id_token = token(good(hostile, asked["nonce"]))
    page = browser.get("/sign-in/provider/back", params={"state": asked["state"], "code": "c"})
    who = browser.get("/v1/session")
    return page.status_code, who.json() if who.status_code == 200 else {}, page.text


def test_an_honest_token_is_taken(hostile: Hostile, browser: httpx.Client) -> None:
    """So that the refusals below are of what was forged."""
    status, who, _ = finish(hostile, browser, signed)
    assert (status, who["name"], who["role"]) == (200, "olga", "admin")


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_signature_is_refused(hostile: Hostile, browser: httpx.Client, name: str) -> None:
    status, who, _ = finish(hostile, browser, FORGED[name])
    assert (status in (401, 503), who) == (True, {})


@pytest.mark.parametrize("name", CHANGED)
def test_claims_of_another_sign_in_are_refused(hostile, browser, name) -> None:
    def changed(claims: dict[str, Any]) -> str:
        given = dict(CHANGED[name])
        if given.get("iss") == "SLASH":
            given["iss"] = f"{hostile.issuer}/"
        for at in ("exp", "nbf", "iat"):
            if isinstance(given.get(at), int):
                given[at] += int(time.time())
        whole = {**claims, **given}
        return signed({name: value for name, value in whole.items() if value is not None})

    status, who, page = finish(hostile, browser, changed)
    assert (status, who) == (401, {})
    assert "evil" not in page


def without_groups(claims: dict[str, Any]) -> str:
    return signed({name: value for name, value in claims.items() if name != "groups"})


@pytest.mark.parametrize(
    ("status", "body", "refusal"),
    [(200, {"sub": "mallory", **ADMIN}, 401), (200, ADMIN, 401),
     (200, {"sub": ["olga"], **ADMIN}, 401), (200, [{"sub": "olga", **ADMIN}], 401),
     (200, {"sub": "olga", "groups": {"decoder-admins": True}}, 403),
     (200, {"sub": "olga", "groups": [["decoder-admins"], 7, None]}, 403),
     (200, None, 503), (200, b"<html>", 503), (200, b"\xff\xfe", 503),
     *((status, {"sub": "olga", **ADMIN}, 503) for status in (401, 500, 302))],
)  # fmt: skip
def test_a_lie_of_the_userinfo_endpoint_is_refused(hostile, browser, status, body, refusal) -> None:
    """From another person, nobody or malformed: no role comes of it."""
    hostile.userinfo = status, body if isinstance(body, bytes) else json.dumps(body).encode()
    assert finish(hostile, browser, without_groups)[:2] == (refusal, {})
    assert "/userinfo_endpoint" in hostile.asked
    assert "/elsewhere" not in hostile.asked


def test_userinfo_adds_to_the_token_only(hostile: Hostile, browser: httpx.Client) -> None:
    result = {"sub": "olga", "preferred_username": "someone else", **ADMIN}
    hostile.userinfo = 200, json.dumps(result).encode()
    named = {"preferred_username": "olga"}
    _, who, _ = finish(hostile, browser, lambda claims: without_groups({**claims, **named}))
    assert (who["name"], who["role"]) == ("olga", "admin")
    _, low, _ = finish(hostile, browser, lambda claims: signed({**claims, "groups": ["staff"]}))
    assert low["role"] == "viewer"  # the token has it: nobody is asked to raise it


@pytest.mark.parametrize("address", ["http://evil.example/a", "ftp://127.0.0.1/", "//evil.example"])
@pytest.mark.parametrize("name", ["userinfo_endpoint", "token_endpoint", "jwks_uri"])
def test_secrets_go_to_safe_addresses_alone(hostile, browser, name, address) -> None:
    hostile.metadata = {name: address}
    assert begin(browser)[0] == 503


def test_providers_with_another_issuer_are_refused(hostile: Hostile, browser: httpx.Client) -> None:
    hostile.metadata = {"issuer": "https://id.example"}
    assert begin(browser)[0] == 503


@pytest.mark.parametrize(
    "key",
    [{"kty": "OKP", "crv": "Ed25519ph", "x": "AAAA", "kid": "new", "use": "sig"},
     {"kty": "EC", "crv": "BP-256", "x": "AAAA", "y": "AAAA", "kid": "bp", "use": "sig"},
     {"kid": "odd"}],
)  # fmt: skip
def test_keys_that_cannot_be_imported_are_skipped(hostile, browser, key) -> None:
    """go-oidc #498: one unknown key in a provider's key set locked everybody out."""
    hostile.more_keys = [key]
    assert finish(hostile, browser, signed)[0] == 200


@pytest.mark.parametrize(
    ("methods", "sent"),
    [(None, "header"), (["client_secret_post"], "form"),
     (["client_secret_post", "client_secret_basic"], "header")],
)  # fmt: skip
def test_the_client_is_authenticated_as_discovery_says(hostile, browser, methods, sent) -> None:
    """nextcloud/user_oidc #349: a form alone. The secret is encoded first (RFC 6749, 2.3.1)."""
    if methods:
        hostile.metadata = {"token_endpoint_auth_methods_supported": methods}
    assert finish(hostile, browser, signed)[0] == 200
    kind, _, value = hostile.authorization.partition(" ")
    if sent == "form":
        assert not kind
        assert dict(parse_qsl(hostile.form))["client_secret"] == SECRET
    else:
        name, _, secret = base64.b64decode(value).decode().partition(":")
        assert (kind, name, unquote_plus(secret)) == ("Basic", CLIENT, SECRET)
        assert "client_secret" not in hostile.form


def test_each_tab_has_its_state(hostile: Hostile, browser: httpx.Client) -> None:
    """express-openid-connect #43: two tabs come back in the order in which they began."""
    _, first = begin(browser)
    answer = browser.get("/sign-in/provider?next=/jobs")
    second = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
    for asked, there in ((first, "/lists"), (second, "/jobs")):
        hostile.id_token = signed(good(hostile, asked["nonce"]))
        page = browser.get("/sign-in/provider/back", params={"state": asked["state"], "code": "c"})
        assert (page.status_code, f"url={there}" in page.text) == (200, True)


def test_many_tabs_fit_a_cookie(hostile: Hostile, browser: httpx.Client) -> None:
    begin(browser)
    for _ in range(10):
        cookie = browser.get("/sign-in/provider?next=/lists").headers["set-cookie"]
        assert len(cookie) < 4096
    hostile.asked.clear()


def test_the_reason_of_a_failure_is_named(hostile: Hostile, browser: httpx.Client) -> None:
    hostile.metadata = {"token_endpoint": "http://127.0.0.1:9/"}
    status, _, page = finish(hostile, browser, signed)
    assert (status, "All connection attempts failed" in page) == (503, True)


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
