"""Messages of alarms against real servers: sent at least once, with a reason where they fail."""

import json
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import truststore
from sqlalchemy import insert, select

from decoder_service.alarms import rules
from decoder_service.alarms.rules import HOLD_SECONDS, PAUSES, Alarms, take_event
from decoder_service.shell.database import utc_now
from decoder_service.shell.errors import UnavailableError
from decoder_service.shell.models import AlarmRow, EventRow, ScheduleRow
from decoder_service.shell.server import _set_up_process
from decoder_service.shell.service import DecoderService, make_service
from rappor_server.errors import SettingsError
from tests.client.test_ways import CERTIFICATE
from tests.decoder_service.support import running, settings_of
from tests.http_server import Handler, serving

BODY = {
    "event": "e" * 16,
    "rule": "new_value",
    "text": "1 values were found",
    "schedule": {"name": "weekly\u202e", "metric": "homepage"},
    "window": {"first_day": "2026-11-09", "last_day": "2026-11-15", "result_id": "a" * 16},
    "values": ["evil\r\nBcc: all@example.org", "=1+1"],
}


class Hook(ThreadingHTTPServer):
    """A receiver: `answers` by turn, then 204; paths and bodies that came are in `got`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.answers: list[int] = []
        self.got: list[tuple[str, bytes]] = []

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.server_address[1]}/hook"


class Receiver(Handler):
    server: Hook

    def do_POST(self) -> None:  # noqa: N802
        self.server.got.append((self.path, self.body()))
        self.reply(self.server.answers.pop(0) if self.server.answers else 204)


@pytest.fixture
def hook() -> Iterator[Hook]:
    with serving(Hook()) as server:
        yield server


@contextmanager
def waiting(database: str, url: str, number: int = 1) -> Iterator[DecoderService]:
    """A service with events of one alarm that wait to be sent."""
    with running(database, tick_seconds=0, alarm_urls={"ops": url}) as served:
        service = served.service
        row = {"id": "s" * 16, "name": "s", "owner": served.people["ana"].id, "metric": "homepage"}
        schedule = {"every": "day", "spec": "{}", "enabled": False, "created": 0.0}
        alarm = {"id": "a" * 16, "schedule_id": "s" * 16, "name": "on call", "target": "ops"}
        more = {"rules": "{}", "show_values": True, "created": 0.0}
        event = {"alarm_id": "a" * 16, "state": "waiting", "tries": 0, "due": 0.0, "reason": ""}
        with service.database.writing() as db:
            db.execute(insert(ScheduleRow).values(row | schedule))
            db.execute(insert(AlarmRow).values(alarm | more))
            for n in range(number):
                made = {"id": f"{n:016x}", "cause": f"c{n}", "created": 0.0}
                body = json.dumps(BODY | {"event": f"{n:016x}"})
                db.execute(insert(EventRow).values(event | made | {"body": body}))
        yield service


def states(service: DecoderService) -> list[tuple[str, int]]:
    with service.database.reading() as db:
        columns = (EventRow.state, EventRow.tries)
        return [(r[0], r[1]) for r in db.execute(select(*columns))]


def later(alarms: Alarms, seconds: float) -> Alarms:
    return replace(alarms, clock=lambda: utc_now() + timedelta(seconds=seconds))


def test_an_event_is_sent_once(database_url: str, hook: Hook) -> None:
    with waiting(database_url, hook.url, 3) as service:
        assert service.alarms.send_due() == (3, 0)
        assert service.alarms.send_due() == (0, 0)
        assert later(service.alarms, 1e6).send_due() == (0, 0)
        assert set(states(service)) == {("sent", 1)}
    assert len(hook.got) == 3
    path, body = hook.got[0]
    message = json.loads(body)
    assert path == "/hook"
    assert message["title"] == "[rappor] weekly\\u202e: new value"
    assert "Window: 2026-11-09 to 2026-11-15" in message["message"]
    assert "Value: evil\\r\\nBcc: all@example.org" in message["message"]


def test_two_senders_send_an_event_once(database_url: str, hook: Hook) -> None:
    with waiting(database_url, hook.url, 20) as service:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: service.alarms.send_due(), range(4)))
        service.alarms.send_due()
        assert set(states(service)) == {("sent", 1)}
    assert len(hook.got) == 20


def test_refused_events_are_retried_then_given_up(tmp_path: Path, hook: Hook) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    hook.answers = [500, 404]
    with waiting(url, hook.url) as service:
        assert service.alarms.send_due() == (0, 1)
        assert service.alarms.send_due() == (0, 0)  # not before its pause
        assert later(service.alarms, PAUSES[0] + 1).send_due() == (0, 1)
        assert later(service.alarms, 10_000).send_due() == (1, 0)
        assert len({json.loads(body)["message"] for _, body in hook.got}) == 1
    hook.answers = [500] * 20
    url = f"sqlite:///{tmp_path}/e.sqlite"
    with waiting(url, hook.url) as service:
        tries = 0
        while later(service.alarms, 1e6 * (tries + 1)).send_due() == (0, 1):
            tries += 1
        assert tries == len(PAUSES) + 1
        assert states(service) == [("failed", tries)]


def test_dead_senders_leave_events_to_others(tmp_path: Path, hook: Hook) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    with waiting(url, hook.url) as service:
        at = utc_now().timestamp()
        with service.database.writing() as db:  # taken; then its process is gone
            assert take_event(db, at, at + HOLD_SECONDS) is not None
        assert service.alarms.send_due() == (0, 0)
        assert later(service.alarms, HOLD_SECONDS + 1).send_due() == (1, 0)


def test_a_failure_names_its_reason_and_no_secret(tmp_path, capfd) -> None:
    secret = "json://ann:s3cr3t-word@127.0.0.1:9/hook-t0ken?+x=head3r"
    with waiting(f"sqlite:///{tmp_path}/d.sqlite", secret) as service:
        assert service.alarms.send_due() == (0, 1)
        with service.database.reading() as db:
            reason = db.execute(select(EventRow.reason)).scalar_one()
    assert "Connection refused" in reason
    for text in (reason, *capfd.readouterr()):
        assert not any(part in text for part in ("s3cr3t", "t0ken", "head3r"))


@pytest.mark.parametrize(
    "url",
    ["tgram://123456789:s3cr3tghIJKLmnopQRST_uvwxyz01234567/12315544/", "lark://s3cr3t123",
     "slack://S3CR3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general",
     "json://ann:s3cr3t%40word@127.0.0.1:9/"],
)  # fmt: skip
def test_a_host_or_a_coded_part_may_be_the_secret(url, monkeypatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(UnavailableError, match="Connection refused") as caught:
        rules.send(url, json.dumps(BODY), "")
    assert "s3cr3t" not in str(caught.value).lower()
    shown = "no route to /s3cr3t@word, /s3cr3t%40word"
    if "%40" in url:
        assert rules.without_secrets(shown, url) == "no route to /****, /****"


def test_a_target_that_fails_slowly_stops_no_tick(tmp_path, hook, monkeypatch) -> None:
    with waiting(f"sqlite:///{tmp_path}/d.sqlite", hook.url, 3) as service:
        monkeypatch.setattr(rules, "MAX_SECONDS", 1e-9)
        assert sum(service.alarms.send_due()) <= 1
        monkeypatch.undo()
        service.alarms.send_due()
        assert set(states(service)) == {("sent", 1)}


def test_an_alarm_whose_target_is_gone_says_so(tmp_path: Path, hook: Hook) -> None:
    with waiting(f"sqlite:///{tmp_path}/d.sqlite", hook.url) as service:
        assert replace(service.alarms, urls={}).send_due() == (0, 1)
        with service.database.reading() as db:
            reason = db.execute(select(EventRow.reason)).scalar_one()
    assert reason == "target 'ops' is not set up; an operator sets alarm_urls"


def test_urls_are_checked_when_the_service_starts(tmp_path: Path) -> None:
    settings = settings_of(f"sqlite:///{tmp_path}/d.sqlite", alarm_urls={"ops": "s3cr3t"})
    with pytest.raises(SettingsError, match="the URL of 'ops' is not one of Apprise") as caught:
        make_service(settings)
    assert "s3cr3t" not in str(caught.value)


def test_each_address_of_a_host_is_tried(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sonarr #8479: a host whose first address does not answer has a second one."""
    port = hook.server_address[1]
    both = [socket.getaddrinfo(f"127.0.0.{n}", port, type=socket.SOCK_STREAM)[0] for n in (2, 1)]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: both)
    rules.send(hook.url, json.dumps(BODY), "")
    assert len(hook.got) == 1


def test_an_authority_of_the_house_is_trusted(monkeypatch, request) -> None:
    """opencloud #2379: the certificates of the system and SSL_CERT_FILE were ignored."""
    house, tls = Hook(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE, CERTIFICATE.with_suffix(".key"))
    house.socket = tls.wrap_socket(house.socket, server_side=True)
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # which `_set_up_process` sets
    request.addfinalizer(truststore.extract_from_ssl)
    _set_up_process()
    with serving(house):
        with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            rules.send(house.url.replace("json", "jsons"), json.dumps(BODY), "")
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        rules.send(house.url.replace("json", "jsons"), json.dumps(BODY), "")
    assert len(house.got) == 1


def test_mail_has_a_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """semaphore #1782: RFC 5322 (3.6) requires it; filters bounce or score mail without."""
    sent: list[str] = []
    monkeypatch.setattr("smtplib.SMTP.connect", lambda *_: (220, b""))
    monkeypatch.setattr("smtplib.SMTP.login", lambda *_, **__: None)
    monkeypatch.setattr("smtplib.SMTP.sendmail", lambda _self, _from, _to, body: sent.append(body))
    monkeypatch.setattr("smtplib.SMTP.quit", lambda *_: None)
    url = "mailto://ann:word@example.org?smtp=127.0.0.1&to=bob@example.org"
    rules.send(url, json.dumps(BODY), "")
    assert "\nDate: " in sent[0]
