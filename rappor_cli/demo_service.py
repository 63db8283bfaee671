"""The last step of `rappor demo`: a decoder service with results to browse, and its collector."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from rich.console import Console

from client_sdk import Transport
from client_sdk.randomization.key_derivation import Randomness
from collector.server import running_collector
from collector.settings import Settings
from collector.settings import load_settings as collector_settings_of
from decoder.sources.collector_client import ask
from decoder.sources.windows import SplitName
from decoder_service.alarms.rules import NewAlarm, Rules
from decoder_service.jobs.specs import (
    CandidateSpec,
    Choices,
    CountSource,
    JobSpec,
    MapChoices,
    NewRelease,
    ReleaseSource,
    WindowSpec,
)
from decoder_service.lists.rules import NewList
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Person, Role
from decoder_service.releases.page import POLICY
from decoder_service.schedules.rules import NewSchedule
from decoder_service.schedules.windows import Every
from decoder_service.shell.models import (
    LIVE,
    EventState,
    JobState,
    ResultRow,
    ScheduleRow,
    WindowState,
)
from decoder_service.shell.server import running_service
from decoder_service.shell.service import DecoderService
from decoder_service.shell.settings import load_settings
from rappor_cli.progress import progress_bar
from rappor_core.errors import RapporError
from rappor_core.metrics.file import parse_metrics
from rappor_core.text import visible
from rappor_core.wire.report import Report
from simulations.experiments import demo_weeks as weeks
from simulations.populations.fleet import FleetDelivery, deliver, encode_fleet

JOB_SECONDS = 300.0
FOLLOWED = ("start_page", "theme")  # metrics with a series by day
MAX_JOBS = 1000
TICK_SECONDS = 2.0
FILE = "decoder.sqlite"
HOST = "127.0.0.1"
ALARM_TARGET = "this terminal"
Say = Callable[[str], None]


class DemoError(RapporError):
    """An error that stops the demonstration."""


@contextmanager
def listening_alarms(say: Callable[[str], None]) -> Iterator[str]:
    """Listen on this machine for the demo's alarm and print it; yield its Apprise URL."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            alarm = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            lines = [visible(line) for line in alarm["message"].splitlines() if line]
            say(f"alarm: {alarm['title']}: {' '.join(lines)}")
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            """Suppress the log line of each request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"json://127.0.0.1:{server.server_port}/alarms"
        finally:
            server.shutdown()


@contextmanager
def prepared_service(
    output: Path, today: date, collector: str, say: Say, *, port: int
) -> Iterator[tuple[str, str, str]]:
    """Run a service with a new database that contains the demo's results.

    The database contains a candidate list, completed jobs, a schedule that has decoded each closed
    day, an alarm that was sent, and a release that waits for approval.

    Args:
        output: The folder of the database.
        today: The open day, UTC.
        collector: The URL of the collector.
        say: A function that prints a line.
        port: The port of the service; 0 picks a free one.

    Yields:
        The URL of the service, a sign-in key, and the key of a second user, who approves the
        release that the first user has proposed.

    Raises:
        DemoError: A job did not end as expected.
    """
    for leftover in output.glob(f"{FILE}*"):
        leftover.unlink()
    with ExitStack() as stack:
        hook = stack.enter_context(listening_alarms(say))
        settings = load_settings(  # sets everything: the operator's environment has no effect
            database=f"sqlite:///{output / FILE}",
            host=HOST,
            port=port,
            public_url=None,
            collector=collector,
            collector_key=None,
            job_slots=2,
            tick_seconds=TICK_SECONDS,
            alarm_urls={ALARM_TARGET: hook},
            log_level="error",
        )
        url, app = stack.enter_context(running_service(settings))
        service: DecoderService = app.state.service
        key, second = (
            service.access.create_key(COMMAND_LINE, name, Role.ADMIN, "made by rappor demo")
            for name in ("demo", "second")
        )
        person = service.access.person_of_key(key.text)
        text = "".join(f"{value}\n" for value in weeks.candidates())
        new_list = NewList(name="start pages", source="made by rappor demo", shared=True)
        pages = service.lists.create(person, new_list, text.encode())
        listed = CandidateSpec(list=pages.id)
        schedule = _follow(service, person, listed)
        jobs = [service.jobs.submit(person, spec) for spec in _specs(today, listed)]
        _await_jobs(service, person, schedule, say)
        result = service.jobs.get(person, jobs[0].id).result_id
        policy = f'owner = "demo@example.org"\naudience = "demo@example.org"\n{POLICY}'
        sources = [ReleaseSource(result=str(result))]
        release = NewRelease(name="start pages", policy=policy, sources=sources)
        proposed = service.releases.propose(person, release)
        say(f"release: waits for the approval of a second person: {url}/releases/{proposed.id}")
        yield url, key.text, second.text


def show_service(
    output: Path,
    today: date,
    rng: np.random.Generator,
    randomness: Randomness,
    console: Console,
    port: int,
) -> None:
    """Serve two weeks of decoded reports until Ctrl-C.

    Args:
        output: The folder of the databases, which are replaced.
        today: The open day, UTC.
        rng: The random generator for values.
        randomness: The devices' source of random bytes.
        console: The console for addresses, keys and alarms.
        port: The port of the service; 0 picks a free one.
    """

    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    with (
        filled_collector(output, today, rng, randomness, say) as collector,
        prepared_service(output, today, collector, say, port=port) as (url, key, second),
    ):
        say(f"decoder service: {url}/sign-in")
        say(f"key: {key}")
        say(f"key of a second person, who approves the release: {second}")
        say("Ctrl-C ends it.")
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            say("stopped")


def collector_settings(database: Path, metrics: Path | None = None) -> Settings:
    """Return the settings for a local collector, regardless of the environment.

    Args:
        database: The database file, which is replaced.
        metrics: A metrics.toml to declare at start.
    """
    for leftover in database.parent.glob(f"{database.name}*"):  # its WAL is next to it
        leftover.unlink()
    return collector_settings_of(
        metrics=metrics,
        database=f"sqlite:///{database}",
        host="127.0.0.1",
        port=0,
        workers=1,
        require_keys=False,
        log_level="warning",
    )


def send(
    reports: Iterator[Report],
    transport: Transport,
    randomness: Randomness,
    advance: Callable[[int], None],
) -> FleetDelivery:
    """Send reports in batches. Raises DemoError if the collector rejects one."""
    delivery = deliver(reports, transport, randomness=randomness, progress=advance)
    if delivery.refused:
        raise DemoError(f"the collector refused reports: {dict(delivery.refused)}")
    return delivery


@contextmanager
def filled_collector(
    output: Path, today: date, rng: np.random.Generator, randomness: Randomness, say: Say
) -> Iterator[str]:
    """Run a collector with two closed weeks and an open day; yield its URL."""
    metrics, database = output / "service-metrics.toml", output / "service-collector.sqlite"
    metrics.write_text(weeks.metrics_text(today), encoding="utf-8")
    total, accepted = (weeks.DAYS + 1) * (weeks.DAILY + weeks.THEMES_DAILY) + weeks.PLACES, 0
    with running_collector(collector_settings(database, metrics)) as url:
        with Transport(url) as transport, progress_bar("reports", total) as advance:
            for metric, day, readings in weeks.place_readings(today, rng):
                reports = encode_fleet(readings, {metric.name: metric}, day, randomness)
                accepted += send(reports, transport, randomness, advance).accepted
            for number in range(weeks.DAYS + 1):
                day = today - timedelta(days=weeks.DAYS - number)
                declared = parse_metrics(weeks.metrics_text(day)).metrics
                reports = encode_fleet(weeks.day_readings(number, rng), declared, day, randomness)
                accepted += send(reports, transport, randomness, advance).accepted
                if day < today:
                    ask(url, f"/v1/days/{day}/close", method="POST")
        say(
            f"collector: {url}, {accepted:,} reports of {weeks.DAYS} closed days, of today, and of "
            f"places in {weeks.WEEKS} weeks; counters in {database}"
        )
        yield url


def _follow(service: DecoderService, person: Person, listed: CandidateSpec) -> ScheduleRow:
    """Create a daily schedule with an alarm, and a second one for a series; return the first."""
    daily = NewSchedule(
        name="start pages by day", metric="start_page", every=Every.DAY, candidates=listed,
        options=Choices(correction="bonferroni"),
    )  # fmt: skip
    schedule = service.schedules.create(person, daily)
    series = {"name": "start pages over time", "operation": "series", "options": Choices()}
    service.schedules.create(person, daily.model_copy(update=series))
    rules = Rules(change=0.03, new_value=True)
    alarm = NewAlarm(name="a page that moves", target=ALARM_TARGET, rules=rules, show_values=True)
    service.alarms.create(person, schedule.id, alarm)
    return schedule


def _specs(today: date, listed: CandidateSpec) -> list[JobSpec]:
    """Return the specifications of two decodings, their comparison and a map."""

    def days(first: int, last: int) -> CountSource:
        ends = (today - timedelta(days=weeks.DAYS - number) for number in (first, last))
        return CountSource(
            collector=WindowSpec(metric="start_page", first=next(ends), last=next(ends))
        )

    places = CountSource(collector=WindowSpec(metric="usual_place"))
    first, second = days(0, 6), days(7, weeks.DAYS - 1)
    return [
        JobSpec(source=first, candidates=listed),
        JobSpec(source=second, candidates=listed),
        JobSpec(operation="compare", before=first, source=second, candidates=listed),
        JobSpec(source=places, map=MapChoices(split=SplitName.WEEK)),
    ]


def _await_jobs(service: DecoderService, person: Person, schedule: ScheduleRow, say: Say) -> None:
    """Wait until all jobs are done, all scheduled days are decoded, and the alarm is sent."""
    deadline, ended = time.monotonic() + JOB_SECONDS, set[str]()
    while time.monotonic() < deadline:
        rows = service.jobs.all(person, limit=MAX_JOBS)
        for row in rows:
            if row.state not in LIVE and row.id not in ended:
                ended.add(row.id)
                say(f"job: {row.operation} of {row.metric}: {row.state}")
            if row.state not in (*LIVE, JobState.DONE):
                raise DemoError(f"the {row.operation} ended as {row.state}: {row.reason}")
        if len(ended) == len(rows) and _is_followed(service, person, schedule):
            return
        time.sleep(0.2)
    raise DemoError(f"the jobs took more than {JOB_SECONDS:.0f} seconds")


def _is_followed(service: DecoderService, person: Person, schedule: ScheduleRow) -> bool:
    """Return whether the demo's schedule is done.

    That is, each closed day is decoded, its alarm was sent, and the daily series of two metrics
    exist.
    """
    series = service.results.all(person, ResultRow.operation == "series")
    windows = service.schedules.windows(person, schedule.id)
    events = service.alarms.events(person, schedule.id)
    return (
        len(windows) == weeks.DAYS
        and all(window.state == WindowState.DONE for window in windows)
        and all(event.state == EventState.SENT for event in events)
        and {row.metric for row in series} == set(FOLLOWED)
    )
