"""The service over HTTP with people, and workers as separate processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import psutil

from decoder.errors import RemoteError
from decoder_service.metrics.rules import Ask, Metrics, RemoteCollector
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Person, Role
from decoder_service.results.rules import let_read, save_result
from decoder_service.shell.models import LIVE, ResultRow
from decoder_service.shell.server import running_service
from decoder_service.shell.service import DecoderService
from decoder_service.shell.settings import ServiceSettings, load_settings
from tests.waiting import until

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
STRINGS = (GOLDEN / "aggregates" / "strings.json").read_bytes()
WORDS = (GOLDEN / "candidates.txt").read_bytes()
ALARM_URLS = {"ops": "json://127.0.0.1:9/"}  # where nothing listens
SLOW = {"numbers": [0, 3_000_000]}  # candidates that take many seconds and hundreds of MiB


@dataclass
class Running:
    url: str
    service: DecoderService
    keys: dict[str, str]
    people: dict[str, Person]

    def client(self, name: str | None) -> httpx.Client:
        headers = {} if name is None else {"Authorization": f"Bearer {self.keys[name]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, verify=False)  # HTTP


def settings_of(database: str, **changes: Any) -> ServiceSettings:
    given: dict[str, Any] = {"port": 0, "job_slots": 0, "log_level": "error"}
    return load_settings(database=database, **(given | changes))


PEOPLE = {"ana": Role.ANALYST, "ben": Role.ANALYST, "vic": Role.VIEWER, "root": Role.ADMIN}


def with_people(url: str, service: DecoderService, **more: Role) -> Running:
    keys = {
        name: service.access.create_key(COMMAND_LINE, name, role).text
        for name, role in (PEOPLE | more).items()
    }
    people = {name: service.access.person_of_key(key) for name, key in keys.items()}
    service.metrics.refresh()
    return Running(url, service, keys, people)


@contextmanager
def running(database: str, **changes: Any) -> Iterator[Running]:
    """The service with two analysts, a viewer and an admin; without a worker by default."""
    with running_service(settings_of(database, **changes)) as (url, app):
        service: DecoderService = app.state.service
        yield with_people(url, service)


def result_row(identity: str, **changes: Any) -> ResultRow:
    """The row of a decoding; its keys are of its id."""
    keys = dict.fromkeys(("key", "input_digest"), identity.ljust(64, "0"))
    days = dict.fromkeys(("first_day", "last_day", "supersedes"))
    texts = {"operation": "decode", "kind": "string", "metric": "m", "params_id": "p",
             "version": "a version"}  # fmt: skip
    empty = {"manifest": "{}", "summary": "{}", "released": False, "created": 1.0}
    return ResultRow(**({"id": identity} | keys | days | texts | empty | changes))


def keep_result(service: Running, row: ResultRow, files: dict[str, bytes], owner: str) -> str:
    with service.service.database.writing() as db:
        save_result(db, row, files)
        let_read(db, row.id, service.people[owner].id)
    return row.id


def start_worker(database: str, folder: Path, **settings: Any) -> subprocess.Popen[bytes]:
    """`rappor decoder worker` in a separate process."""
    given = {"LOG_LEVEL": "error", "WORK_FOLDER": str(folder), **settings}
    variables = {f"RAPPOR_DECODER_{name}": str(value) for name, value in given.items()}
    code = "import sys; from rappor_cli.main import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", code, "decoder", "worker", "--database", database],
        env=os.environ | variables | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        cwd=ROOT,
    )


@contextmanager
def workers(database: str, folder: Path, count: int = 1, **settings: Any) -> Iterator[list[Any]]:
    started = [start_worker(database, folder, **settings) for _ in range(count)]
    try:
        yield started
    finally:
        for one in started:
            one.send_signal(signal.SIGTERM)
        for one in started:
            one.wait(30)


def upload(client: httpx.Client, content: bytes = STRINGS) -> str:
    answer = client.post("/v1/aggregates", content=content)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["sha256"])


def store_list(
    client: httpx.Client, name: str, content: str | bytes, kind: str = "candidates"
) -> dict[str, Any]:
    query = {"name": name, "kind": kind}
    answer = client.post("/v1/lists", params=query, content=content)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def text_of(answer: httpx.Response, status: int = 200) -> str:
    """A page in one line, with what its marks mean."""
    assert answer.status_code == status, answer.text
    return " ".join(unescape(answer.text).split())


def assert_answer(answer: httpx.Response, status: int, words: str) -> None:
    """Assert this status, with these words in its text."""
    assert answer.status_code == status, answer.text
    assert words in unescape(answer.text)


def decode_spec(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    """A small decoding of an upload."""
    source = {"aggregates": [upload(client)]}
    return {"operation": "decode", "source": source, "candidates": {"numbers": [0, 50]}, **changes}


def submit(client: httpx.Client, spec: dict[str, Any]) -> str:
    answer = client.post("/v1/jobs", json=spec)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def await_state(
    client: httpx.Client, job: str, *wanted: str, seconds: float = 120
) -> dict[str, Any]:
    """The job when it is in one of these states, or over if none is named."""
    found: dict[str, Any] = {}

    def is_there() -> bool:
        found.update(client.get(f"/v1/jobs/{job}").json())
        return found["state"] in wanted if wanted else found["state"] not in LIVE

    until(is_there, seconds, every=0.05, shown=lambda: found)
    return found


def await_busy(alive: list[psutil.Process]) -> psutil.Process:
    """Wait until a worker has the process of a job, alongside those that start such processes."""
    busy: list[psutil.Process] = []

    def is_busy() -> bool:
        for worker in alive:
            assert worker.is_running(), "a worker ended"
            if len(worker.children(recursive=True)) > 2:  # a tracker, the forking server, a job
                busy.append(worker)
                return True
        return False

    until(is_busy, 120, every=0.1)  # each look reads the list of all processes
    return busy[0]


def ask_by(service: Running, ask: Any) -> Metrics:
    """Put what answers in the place of its collector."""
    made = Metrics(service.service.database, ask)
    for one in (service.service, service.service.ticker):
        object.__setattr__(one, "metrics", made)
    return made


@dataclass(frozen=True)
class Listing(RemoteCollector):
    """A collector that lists what a test says."""

    listed: Ask

    def metrics(self) -> list[dict[str, Any]]:
        return self.listed()


def set_metrics(service: Running, listed: list[dict[str, Any]] | None) -> None:
    """Days as the collector would list them; None: it does not answer."""

    def ask() -> list[dict[str, Any]]:
        if listed is None:
            raise RemoteError("no collector answers at http://127.0.0.1:9: refused")
        return listed

    ask_by(service, ask).refresh()
    ticker = service.service.ticker
    stub = Listing(ticker.collector.url, ticker.collector.key, ask)
    object.__setattr__(ticker, "collector", stub)


def as_listed(service: Running, **changes: Any) -> list[dict[str, Any]]:
    collector = service.service.ticker.collector
    real = RemoteCollector(collector.url, collector.key)
    return [{**row, **changes} for row in real.metrics()]
