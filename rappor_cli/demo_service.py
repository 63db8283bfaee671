"""The end of `rappor demo`: the decoder service, with results to click through."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from decoder.sources.density_windows import SplitName
from decoder_service.jobs.rows import LIVE, JobState
from decoder_service.jobs.specs import CandidateSpec, CountSource, JobSpec, MapChoices
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Person, Role
from decoder_service.shell.server import running_service
from decoder_service.shell.service import DecoderService
from decoder_service.shell.settings import ServiceSettings, load_settings
from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError
from rappor_server.serving import bind, listening_problem
from simulations.experiments.demo_weeks import candidates, page_days, place_weeks

JOB_SECONDS = 300.0
FILE = "decoder.sqlite"
HOST = "127.0.0.1"
Say = Callable[[str], None]


class DemoServiceError(RapporError):
    """The demo cannot prepare or start its decoder service."""


@dataclass(frozen=True)
class Prepared:
    """The service's settings, with a database that holds the results, and keys to sign in.

    second_key: of another person, who approves the releases that the first one proposes.
    """

    settings: ServiceSettings
    key: str
    second_key: str


def check_port(port: int) -> None:
    """Raises DemoServiceError, with the way out, where nothing can listen on a port."""
    try:
        bind(HOST, port).close()
    except OSError as error:
        raise DemoServiceError(listening_problem(f"{HOST}:{port}", error)) from error


def prepare_service(output: Path, today: date, rng: np.random.Generator, say: Say) -> Prepared:
    """Make the service's database anew: counts, a list, and jobs that a worker has done.

    Raises DemoServiceError where a job did not end as it should.
    """
    for leftover in output.glob(f"{FILE}*"):
        leftover.unlink()
    settings = load_settings(  # named, so that a shell set up for an operator changes nothing
        database=f"sqlite:///{output / FILE}",
        host=HOST,
        port=0,
        public_url=None,
        collector=None,
        aggregate_folder=None,
        job_slots=2,
        log_level="error",
    )
    with running_service(settings) as (_, app):
        service: DecoderService = app.state.service
        key, second = (
            service.access.create_key(COMMAND_LINE, name, Role.ADMIN, "made by rappor demo")
            for name in ("demo", "second")
        )
        person = service.access.person_of_key(key.text)
        for spec in _specs(service, person, today, rng):
            service.jobs.submit(person, spec)
        _await_jobs(service, person, say)
    return Prepared(settings, key.text, second.text)


def serve_until_interrupted(prepared: Prepared, say: Say, port: int) -> None:
    """Serve what was prepared, until Ctrl-C."""
    settings = prepared.settings.model_copy(update={"port": port})
    with running_service(settings) as (url, _):
        say(f"decoder service: {url}/sign-in")
        say(f"key: {prepared.key}")
        say(f"key of a second person, who approves releases: {prepared.second_key}")
        say("Ctrl-C ends it.")
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            say("stopped")


def command_text(output: Path, port: int) -> str:
    """The command line that serves the database which the demo prepared."""
    return f"rappor decoder serve --database sqlite:///{output / FILE} --port {port}"


def _specs(
    service: DecoderService, person: Person, today: date, rng: np.random.Generator
) -> list[JobSpec]:
    """Two decodings, their comparison, a series and a map."""

    def upload(one: Aggregate) -> str:
        return service.aggregates.upload(person, one.to_json().encode()).sha256

    days = [upload(one) for one in page_days(today, rng)]
    places = [upload(one) for one in place_weeks(today, rng)]
    text = "".join(f"{value}\n" for value in candidates())
    pages = service.lists.create(
        person, "start pages", text.encode(), source="made by rappor demo", shared=True
    )
    listed = CandidateSpec(list=pages.id)
    first, second = (CountSource(aggregates=days[:7]), CountSource(aggregates=days[7:]))
    return [
        JobSpec(kind="decode", source=first, candidates=listed),
        JobSpec(kind="decode", source=second, candidates=listed),
        JobSpec(kind="compare", before=first, source=second, candidates=listed),
        JobSpec(kind="series", source=CountSource(aggregates=days), candidates=listed),
        JobSpec(
            kind="density",
            source=CountSource(aggregates=places),
            map=MapChoices(split=SplitName.WEEK),
        ),
    ]


def _await_jobs(service: DecoderService, person: Person, say: Say) -> None:
    deadline, told = time.monotonic() + JOB_SECONDS, set[str]()
    while time.monotonic() < deadline:
        rows = service.jobs.all(person)
        for row in rows:
            if row.state not in LIVE and row.id not in told:
                told.add(row.id)
                say(f"job: {row.kind} of {row.metric}: {row.state}")
            if row.state not in (*LIVE, JobState.DONE):
                raise DemoServiceError(f"the {row.kind} ended as {row.state}: {row.reason}")
        if len(told) == len(rows):
            return
        time.sleep(0.2)
    raise DemoServiceError(f"the jobs took more than {JOB_SECONDS:.0f} seconds")
