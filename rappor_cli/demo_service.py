"""The end of `rappor demo`: the decoder service, with results to click through."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from decoder.sources.density_windows import SplitName
from decoder_service.alarms.events import Rules
from decoder_service.alarms.rows import EventState
from decoder_service.alarms.rules import Channel
from decoder_service.daily_series.rules import DailySeriesState
from decoder_service.jobs.rows import LIVE, JobState
from decoder_service.jobs.specs import (
    CandidateSpec,
    Choices,
    CountSource,
    JobSpec,
    MapChoices,
    WindowSpec,
)
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Person, Role
from decoder_service.schedules.choices import NewSchedule
from decoder_service.schedules.periods import Every
from decoder_service.schedules.rows import ScheduleRow
from decoder_service.schedules.window_rows import WindowState
from decoder_service.shell.server import running_service
from decoder_service.shell.service import DecoderService
from decoder_service.shell.settings import load_settings
from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError
from rappor_core.text import visible
from rappor_server.serving import bind, listening_problem
from simulations.experiments.demo_weeks import DAYS, candidates, place_weeks

JOB_SECONDS = 300.0
FOLLOWED = ("start_page", "theme")  # metrics with a daily series
MOST_JOBS = 1000
TICK_SECONDS = 2.0
FILE = "decoder.sqlite"
HOST = "127.0.0.1"
Say = Callable[[str], None]


class DemoServiceError(RapporError):
    """The demo cannot prepare or start its decoder service."""


@dataclass(frozen=True)
class Prepared:
    """A service that runs and holds results, and keys to sign in.

    second_key: of another person, who approves the releases that the first one proposes.
    """

    url: str
    key: str
    second_key: str


def check_port(port: int) -> None:
    """Raises DemoServiceError, with the way out, where nothing can listen on a port."""
    try:
        bind(HOST, port).close()
    except OSError as error:
        raise DemoServiceError(listening_problem(f"{HOST}:{port}", error)) from error


@contextmanager
def listening_alarms(say: Callable[[str], None]) -> Iterator[str]:
    """Listen on this machine for the demo's alarm and print it; yield the URL for it."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            values = ", ".join(map(visible, told.get("values", [])))
            day = told.get("window", {}).get("first_day", "")
            say(f"alarm: {told['alarm']}, {day}: {told['text']} ({values})")
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            """Write no line of each request to stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/alarms"
        finally:
            server.shutdown()


@contextmanager
def prepared_service(
    output: Path,
    today: date,
    rng: np.random.Generator,
    collector: str,
    say: Say,
    *,
    port: int,
) -> Iterator[Prepared]:
    """Run a service with a database made anew: a list, jobs that are done, a schedule that has
    decoded each closed day, and an alarm that told.

    collector: its URL.  port: of the service; 0 takes a free one.

    Raises DemoServiceError where a job did not end as it should.
    """
    for leftover in output.glob(f"{FILE}*"):
        leftover.unlink()
    settings = load_settings(  # named, so that a shell set up for an operator changes nothing
        database=f"sqlite:///{output / FILE}",
        host=HOST,
        port=port,
        public_url=None,
        collector=collector,
        collector_key=None,
        aggregate_folder=None,
        job_slots=2,
        tick_seconds=TICK_SECONDS,
        webhook_loopback=True,
        log_level="error",
    )
    with listening_alarms(say) as hook, running_service(settings) as (url, app):
        service: DecoderService = app.state.service
        key, second = (
            service.access.create_key(COMMAND_LINE, name, Role.ADMIN, "made by rappor demo")
            for name in ("demo", "second")
        )
        person = service.access.person_of_key(key.text)
        text = "".join(f"{value}\n" for value in candidates())
        pages = service.lists.create(
            person, "start pages", text.encode(), source="made by rappor demo", shared=True
        )
        listed = CandidateSpec(list=pages.id)
        service.daily_series.choose(person, FOLLOWED[0], True, pages.id)
        schedule = _follow(service, person, listed, hook)
        for spec in _specs(service, person, today, rng, listed):
            service.jobs.submit(person, spec)
        _await_jobs(service, person, schedule, say)
        yield Prepared(url, key.text, second.text)


def serve_until_interrupted(prepared: Prepared, say: Say) -> None:
    """Say where the service is, and wait for Ctrl-C."""
    say(f"decoder service: {prepared.url}/sign-in")
    say(f"key: {prepared.key}")
    say(f"key of a second person, who approves releases: {prepared.second_key}")
    say("Ctrl-C ends it.")
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        say("stopped")


def _follow(
    service: DecoderService, person: Person, listed: CandidateSpec, hook: str
) -> ScheduleRow:
    """A schedule that decodes each closed day, with an alarm."""
    asked = NewSchedule(
        name="start pages by day", metric="start_page", every=Every.DAY, candidates=listed,
        options=Choices(correction="bonferroni"),
    )  # fmt: skip
    schedule = service.schedules.create(person, asked)
    rules = Rules(change=0.03, new_value=True)
    service.alarms.create(
        person, schedule.id, "a page that moves", Channel.WEBHOOK, hook, rules, show_values=True
    )
    return schedule


def _specs(
    service: DecoderService,
    person: Person,
    today: date,
    rng: np.random.Generator,
    listed: CandidateSpec,
) -> list[JobSpec]:
    """Two decodings, their comparison and a map."""

    def upload(one: Aggregate) -> str:
        return service.aggregates.upload(person, one.to_json().encode()).sha256

    def days(first: int, last: int) -> CountSource:
        ends = (today - timedelta(days=DAYS - number) for number in (first, last))
        return CountSource(
            collector=WindowSpec(metric="start_page", first=next(ends), last=next(ends))
        )

    places = [upload(one) for one in place_weeks(today, rng)]
    first, second = days(0, 6), days(7, DAYS - 1)
    return [
        JobSpec(source=first, candidates=listed),
        JobSpec(source=second, candidates=listed),
        JobSpec(operation="compare", before=first, source=second, candidates=listed),
        JobSpec(
            source=CountSource(aggregates=places),
            map=MapChoices(split=SplitName.WEEK),
        ),
    ]


def _await_jobs(service: DecoderService, person: Person, schedule: ScheduleRow, say: Say) -> None:
    """Wait until every job is done, every day of the schedule decoded, and its alarm sent."""
    deadline, told = time.monotonic() + JOB_SECONDS, set[str]()
    while time.monotonic() < deadline:
        rows = service.jobs.all(person, limit=MOST_JOBS)
        for row in rows:
            if row.state not in LIVE and row.id not in told:
                told.add(row.id)
                say(f"job: {row.operation} of {row.metric}: {row.state}")
            if row.state not in (*LIVE, JobState.DONE):
                raise DemoServiceError(f"the {row.operation} ended as {row.state}: {row.reason}")
        if len(told) == len(rows) and _is_followed(service, person, schedule):
            return
        time.sleep(0.2)
    raise DemoServiceError(f"the jobs took more than {JOB_SECONDS:.0f} seconds")


def _is_followed(service: DecoderService, person: Person, schedule: ScheduleRow) -> bool:
    """Whether the schedule has decoded each closed day and its alarm has told all of it, and
    the daily series of two metrics are there."""
    listed = [view.listed for view in service.metrics.all(person).metrics if view.listed]
    daily = service.daily_series.all(person, listed).values()
    windows = service.schedules.windows(person, schedule.id)
    events = service.alarms.events(person, schedule.id)
    return (
        len(windows) == DAYS
        and all(one.state == WindowState.DONE for one in windows)
        and all(one.state == EventState.SENT for one in events)
        and len(daily) == len(FOLLOWED)
        and all(one.state == DailySeriesState.DONE for one in daily)
    )
