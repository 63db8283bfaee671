"""Keys and sessions of browsers: what holds, what ends, and writes from other sites."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from decoder_service.people.access import COMMAND_LINE, MAX_SESSIONS, Access
from decoder_service.people.oidc import claimed
from decoder_service.people.permissions import Claimed, Role
from decoder_service.shell.app import create_app
from decoder_service.shell.errors import NoGroupError
from decoder_service.shell.requests import origin_of
from decoder_service.shell.service import make_service
from decoder_service.shell.settings import ServiceSettings
from rappor_server.errors import AuthenticationError, SettingsError
from rappor_server.schema import prepare
from tests.decoder_service.support import (
    Running,
    await_state,
    decode_spec,
    running,
    submit,
    workers,
)

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


@pytest.mark.parametrize("by_key", [False, True])
def test_signing_out_ends_the_session(served: Running, by_key: bool) -> None:
    with browser(served, served.keys["ana"]) as client:
        cookies = dict(client.cookies)
        bearer = {"Authorization": f"Bearer {served.keys['ana']}"}
        headers = bearer if by_key else {"Origin": served.url}
        assert client.post("/sign-out", headers=headers).status_code == 303
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


@pytest.mark.long
def test_a_reason_names_no_folder_of_the_machine(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    with running(url) as served, served.client("ana") as ana:
        with workers(url, tmp_path):
            listed = ana.post("/v1/lists?name=w&kind=weights", content=b"a,1\n").json()["id"]
            spec = decode_spec(ana, weights={"list": listed}, options={"correction": "none"})
            broken = await_state(ana, submit(ana, spec))
        with workers(url, tmp_path / "gone"):
            gone = await_state(ana, submit(ana, decode_spec(ana)))
    for found in (broken, gone):
        assert found["state"] == "failed"
        assert str(tmp_path) not in found["reason"]


@pytest.mark.parametrize("charset", ["punycode", "undefined", "idna", "utf-16", "rot13", "x"])
def test_forms_of_unknown_encodings_are_refused(served: Running, charset: str) -> None:
    part = b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\n\\ud800\r\n--b--\r\n'
    kind = f"multipart/form-data; boundary=b; charset={charset}"
    with served.client(None) as client:
        answer = client.post("/sign-in", content=part, headers={"Content-Type": kind})
    assert answer.status_code in (401, 422)


def test_misplaced_keys_are_not_repeated(served: Running) -> None:
    key = served.keys["ana"]
    with served.client(None) as client:
        for body in ({"token": key}, {"key": key * 9}):
            answer = client.post("/sign-in", data=body)
            assert answer.status_code in (401, 422)
            assert key[-12:] not in answer.text
            assert key[:12] not in answer.text


ISSUER = "https://provider.example.org"
SUBJECT = "one"


@pytest.fixture
def access(settings: ServiceSettings) -> Iterator[Access]:
    now = [datetime(2026, 11, 21, tzinfo=UTC)]

    def clock() -> datetime:
        now[0] += timedelta(seconds=1)
        return now[0]

    service = make_service(settings, clock=clock)
    prepare(service.database)
    yield service.access
    service.close()


def sign_in(access: Access, role: Role) -> str:
    return access.sign_in_claimed(ISSUER, Claimed(SUBJECT, "ann", role))[1]


def holds(access: Access, token: str) -> bool:
    try:
        access.person_of_session(token)
    except AuthenticationError:
        return False
    return True


def test_a_lower_role_ends_older_sessions(access: Access) -> None:
    admin, again = sign_in(access, Role.ADMIN), sign_in(access, Role.ADMIN)
    assert holds(access, admin)
    viewer = sign_in(access, Role.VIEWER)
    assert [holds(access, token) for token in (admin, again, viewer)] == [False, False, True]


def test_lost_groups_end_sessions_and_the_role(access: Access) -> None:
    token = sign_in(access, Role.ANALYST)
    person = access.person_of_session(token)
    access.forget_role(ISSUER, "another")
    assert holds(access, token)
    settings = ServiceSettings(oidc_analysts=("a",))
    with pytest.raises(NoGroupError) as refused:
        claimed({"sub": SUBJECT, "groups": ["b"]}, settings, "groups")
    access.forget_role(ISSUER, refused.value.subject)
    assert not holds(access, token)
    with access.database.reading() as db:
        assert access.person_of_id(db, person.id) is None  # nor do schedules run on


def test_the_oldest_sessions_of_a_person_end(access: Access) -> None:
    keys = [access.create_key(COMMAND_LINE, name, Role.VIEWER).text for name in ("ann", "ben")]
    other = access.sign_in(keys[1])
    tokens = [access.sign_in(keys[0]) for _ in range(MAX_SESSIONS + 3)]
    assert [holds(access, token) for token in tokens] == [False] * 3 + [True] * MAX_SESSIONS
    assert holds(access, other)
