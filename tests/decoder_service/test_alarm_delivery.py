"""Webhooks against real servers: signed, at least once; mail is encrypted."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from decoder_service.alarms import mail, webhooks
from decoder_service.alarms.rows import take_event
from decoder_service.alarms.rules import HOLD_SECONDS, PAUSES, Alarms
from decoder_service.shell.clock import utc_now
from decoder_service.shell.errors import RequestError, SettingsError
from decoder_service.shell.models import alarm_events, alarms, schedules
from decoder_service.shell.service import DecoderService
from tests.decoder_service.support import running, settings_of
from tests.http_server import serving

BODY = {
    "event": "e" * 16,
    "rule": "new_value",
    "text": "1 values were found",
    "schedule": {"name": "weekly\u202e", "metric": "homepage"},
    "window": {"first_day": "2026-11-09", "last_day": "2026-11-15", "result_id": "a" * 16},
    "values": ["evil\r\nBcc: all@example.org", "=1+1"],
}


class Hook(ThreadingHTTPServer):
    """A receiver: `answers` by turn, then 204; what came is in `got`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.got: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook?x=1"


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        hook = self.server
        assert isinstance(hook, Hook)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hook.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        status, headers = hook.answers.pop(0) if hook.answers else (204, {})
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with serving(Hook()) as server:
        yield server


@contextmanager
def waiting(
    database: str, channel: str, target: str, number: int = 1, **changes: Any
) -> Iterator[DecoderService]:
    """A service with events of one alarm that wait to be sent."""
    with running(database, tick_seconds=0, **changes) as served:
        service = served.service
        row = {"id": "s" * 16, "name": "s", "owner": served.people["ana"].id, "metric": "homepage"}
        schedule = {"every": "day", "spec": "{}", "enabled": False, "created": 0.0}
        alarm = {"id": "a" * 16, "schedule_id": "s" * 16, "name": "ops", "channel": channel}
        more = {"target": target, "secret": "k" * 64, "rules": "{}", "show_values": True}
        event = {"alarm_id": "a" * 16, "state": "waiting", "tries": 0, "due": 0.0, "reason": ""}
        with service.database.change() as connection:
            connection.execute(insert(schedules).values(row | schedule))
            connection.execute(insert(alarms).values(alarm | more | {"created": 0.0}))
            for n in range(number):
                made = {"id": f"{n:016x}", "cause": f"c{n}", "created": 0.0}
                body = json.dumps(BODY | {"event": f"{n:016x}"})
                connection.execute(insert(alarm_events).values(event | made | {"body": body}))
        yield service


def states(service: DecoderService) -> list[tuple[str, int]]:
    with service.database.read() as connection:
        columns = (alarm_events.c.state, alarm_events.c.tries)
        return [(r[0], r[1]) for r in connection.execute(select(*columns))]


def later(alarms: Alarms, seconds: float) -> Alarms:
    return replace(alarms, clock=lambda: utc_now() + timedelta(seconds=seconds))


def test_a_webhook_is_signed_and_sent_once(database_url: str, hook: Hook) -> None:
    with waiting(database_url, "webhook", hook.url, 3, webhook_loopback=True) as service:
        assert service.alarms.send_due() == (3, 0)
        assert service.alarms.send_due() == (0, 0)
        assert later(service.alarms, 1e6).send_due() == (0, 0)
        assert set(states(service)) == {("sent", 1)}
    assert len(hook.got) == 3
    path, headers, body = hook.got[0]
    assert path == "/hook?x=1"
    assert headers["rappor-event"] == json.loads(body)["event"]
    at, signature = (part.partition("=")[2] for part in headers["rappor-signature"].split(","))
    expected = hmac.new(b"k" * 64, f"{at}.".encode() + body, sha256).hexdigest()
    assert hmac.compare_digest(signature, expected)


def test_two_senders_send_an_event_once(database_url: str, hook: Hook) -> None:
    with waiting(database_url, "webhook", hook.url, 20, webhook_loopback=True) as service:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: service.alarms.send_due(), range(4)))
        service.alarms.send_due()
        assert set(states(service)) == {("sent", 1)}
    assert len(hook.got) == 20


def test_refused_events_are_retried_then_given_up(tmp_path: Path, hook: Hook) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    hook.answers = [(500, {}), (302, {"Location": hook.url}), (404, {})]
    with waiting(url, "webhook", hook.url, webhook_loopback=True) as service:
        assert service.alarms.send_due() == (0, 1)
        assert service.alarms.send_due() == (0, 0)  # not before its pause
        assert later(service.alarms, PAUSES[0] + 1).send_due() == (0, 1)
        assert later(service.alarms, 1000).send_due() == (0, 1)
        assert len(hook.got) == 3  # the redirect led nowhere
        assert later(service.alarms, 10_000).send_due() == (1, 0)
        assert len({headers["rappor-event"] for _, headers, _ in hook.got}) == 1
    hook.answers = [(500, {})] * 20
    url = f"sqlite:///{tmp_path}/e.sqlite"
    with waiting(url, "webhook", hook.url, webhook_loopback=True) as service:
        tries = 0
        while later(service.alarms, 1e6 * (tries + 1)).send_due() == (0, 1):
            tries += 1
        assert tries == len(PAUSES) + 1
        assert states(service) == [("failed", tries)]


def test_dead_senders_leave_events_to_others(tmp_path: Path, hook: Hook) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    with waiting(url, "webhook", hook.url, webhook_loopback=True) as service:
        at = utc_now().timestamp()
        with service.database.change() as connection:  # taken; then its process is gone
            assert take_event(connection, at, at + HOLD_SECONDS) is not None
        assert service.alarms.send_due() == (0, 0)
        assert later(service.alarms, HOLD_SECONDS + 1).send_due() == (1, 0)


@pytest.mark.parametrize("address", ["10.1.2.3", "127.0.0.1", "::1", "fe80::1%eth0", "100.64.0.1"])
def test_internal_names_are_refused_when_sent(address: str, hook: Hook) -> None:
    given = {"event": "e", "secret": "k", "at": 1, "allow_loopback": False}
    for addresses in ([address], ["93.184.216.34", address]):
        with pytest.raises(RequestError, match="not public"):
            webhooks.post(
                "https://example.org/", b"{}", resolver=lambda *_, found=addresses: found, **given
            )
    assert hook.got == []


def test_mail_leaves_the_machine_encrypted_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    with pytest.raises(SettingsError, match="this machine only"):
        settings_of(url, smtp_host="mail.example", smtp_from="a@b.c", smtp_security="none")
    with pytest.raises(SettingsError, match="smtp_from"):
        settings_of(url, smtp_host="mail.example")
    for address in ("a", "a@b\r\nBcc: c@d.e", "a b@c.d", "<a@b.c>", "a@b.c, d@e.f"):
        with pytest.raises(RequestError):
            mail.check_address(address)
