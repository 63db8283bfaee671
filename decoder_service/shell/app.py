"""The service as an ASGI application (`create_app`), with health checks and Prometheus metrics.

No person, metric, list or value is a label of the Prometheus metrics."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from decoder_service.jobs import page as jobs
from decoder_service.jobs.rules import live_workers
from decoder_service.lists import page as lists
from decoder_service.metrics import page as metrics
from decoder_service.metrics.rules import REFRESH_SECONDS
from decoder_service.people import page as people
from decoder_service.people.oidc import PENDING_SECONDS
from decoder_service.people.permissions import Act, require
from decoder_service.releases import page as releases
from decoder_service.releases.sources import ReleasePublisher
from decoder_service.results import page as results
from decoder_service.schedules import page as schedules
from decoder_service.shell import web
from decoder_service.shell.database import Clock, now, utc_now
from decoder_service.shell.models import HELD, EventRow, EventState, JobRow, JobState
from decoder_service.shell.requests import (
    RULES,
    UPLOADS,
    GuardedRoute,
    current_person,
    include,
    origin_of,
    service_of,
    without_key,
)
from decoder_service.shell.service import DecoderService, make_service
from decoder_service.shell.settings import ServiceSettings, secret_text
from decoder_service.shell.web import unknown_page
from rappor_server.errors import StorageError
from rappor_server.logs import Log, make_log, redirect_libraries
from rappor_server.problems import PROBLEM_RESPONSES, Problems
from rappor_server.request_bounds import CheckedHeads
from rappor_server.schema import prepare
from rappor_server.serving import Readiness

api = APIRouter(tags=["health"], route_class=GuardedRoute)


def prometheus_text(service: DecoderService) -> bytes:
    """Return the Prometheus metrics as text. Raises StorageError."""
    with service.database.reading() as db:
        at = now(db)
        created = select(func.min(JobRow.created)).where(JobRow.state == JobState.QUEUED)
        started = select(func.min(JobRow.started)).where(JobRow.state.in_(HELD))
        waiting, running = (max(0.0, at - (db.scalar(query) or at)) for query in (created, started))
        states = [
            dict(db.execute(select(table.state, func.count()).group_by(table.state)).all())
            for table in (JobRow, EventRow)
        ]
        workers = live_workers(db, 2 * service.settings.lease_seconds)
    registry = CollectorRegistry()
    for name, text, names, numbers in (
        ("jobs", "Stored jobs, by state", JobState, states[0]),
        ("events", "Events of alarms", EventState, states[1]),
    ):
        gauge = Gauge(f"rappor_decoder_{name}", text, ["state"], registry=registry)
        for state in names:
            gauge.labels(state.value).set(numbers.get(state.value, 0))
    for name, text, value in (
        ("oldest_queued_seconds", "Age of the oldest queued job", waiting),
        ("longest_running_seconds", "Time since the oldest running job started", running),
        ("workers", "Live workers", len(workers)),
        ("slots", "Jobs that the workers run at once", sum(worker.slots for worker in workers)),
    ):
        Gauge(f"rappor_decoder_{name}", text, registry=registry).set(value)
    return generate_latest(registry)


@api.get("/healthz", operation_id="getHealth")
@without_key
async def get_health() -> dict[str, Any]:
    """Report that the process responds, without any other check."""
    return {"status": "ok"}


@api.get("/readyz", operation_id="getReady")
@without_key
async def get_ready(request: Request) -> dict[str, Any]:
    """Report whether the database can be written and a worker is alive.

    Otherwise the status is 503, and the problem document states the reason."""
    readiness: Readiness = request.app.state.readiness
    await readiness.check()
    workers = await run_in_threadpool(service_of(request).check_ready)
    return {"status": "ready", "workers": len(workers)}


@api.get("/telemetry", operation_id="getPrometheus")
@without_key
def get_prometheus(request: Request) -> Response:
    """Return the metrics as text for Prometheus, for admins only if `protect_metrics` is set."""
    service = service_of(request)
    if service.settings.protect_metrics:
        require(current_person(request), Act.ADMINISTER)
    return Response(prometheus_text(service), media_type=CONTENT_TYPE_LATEST)


_FEATURES = (web, people, jobs, results, releases, lists, schedules, metrics)
API_VERSION = "1"
SIGN_IN_COOKIE = "rappor_decoder_sign_in"
_HOUSE_SECONDS = 1.0
HEADERS = {  # Defaults for every response
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def create_app(settings: ServiceSettings, *, clock: Clock = utc_now) -> FastAPI:
    """Build the service's ASGI application for these settings.

    The database is opened when the app starts. `clock` returns the current time, UTC. Raises
    SettingsError."""
    log = make_log(settings.log_level)
    redirect_libraries(log)
    publisher = ReleasePublisher(settings.release_key)
    service = make_service(settings, clock=clock, publisher=publisher)
    app = FastAPI(
        title="rappor-telemetry decoder service",
        version=API_VERSION,
        lifespan=partial(_lifespan, service, log),
        docs_url=None,
        redoc_url=None,
        responses=PROBLEM_RESPONSES,
        redirect_slashes=False,  # It would trust the client's Host header
    )
    app.state.service = service
    app.state.uploads = asyncio.Semaphore(UPLOADS)
    app.state.readiness = Readiness(service.try_to_write)
    app.state.public_origin = origin_of(settings.public_url) if settings.public_url else None
    for feature in _FEATURES:
        for name in ("api", "admin", "pages"):
            if hasattr(feature, name):
                include(app, getattr(feature, name))
    include(app, api)
    problems = Problems(log, RULES)

    async def unknown(request: Request, error: Exception) -> Response:
        page = await run_in_threadpool(unknown_page, request)
        return page or await problems.of_http(request, error)

    problems.add_handlers(app)
    app.add_exception_handler(404, unknown)
    if settings.oidc_issuer is not None:  # Signed cookie of a pending sign-in
        text = f"{settings.database} {secret_text(settings.oidc_client_secret) or ''}"
        is_https = app.state.public_origin.startswith("https://")
        app.add_middleware(
            SessionMiddleware,
            secret_key=sha256(text.encode()).hexdigest(),
            session_cookie=f"__Host-{SIGN_IN_COOKIE}" if is_https else SIGN_IN_COOKIE,
            max_age=PENDING_SECONDS,
            same_site="lax",  # The provider redirects back from its own site
            https_only=is_https,
        )
    app.add_middleware(CheckedHeads)
    app.add_middleware(SafeHeaders)
    return app


@asynccontextmanager
async def _lifespan(service: DecoderService, log: Log, _app: FastAPI) -> AsyncIterator[None]:
    await run_in_threadpool(prepare, service.database)
    seconds = service.settings.tick_seconds
    steps = [
        _repeat(service.run_maintenance, "housekeeping_failed", _HOUSE_SECONDS, log),
        _repeat(service.metrics.refresh, "metrics_failed", REFRESH_SECONDS, log),
    ]
    if seconds:
        steps.append(_repeat(partial(_tick, service, log), "tick_failed", seconds, log))
    chores = [asyncio.create_task(step) for step in steps]
    log.info("started", database=service.database.engine.dialect.name)
    try:
        yield
    finally:
        for chore in chores:
            chore.cancel()
        await run_in_threadpool(service.close)
        log.info("stopped")


async def _repeat(step: Callable[[], None], event: str, seconds: float, log: Log) -> None:
    """Repeat a chore forever; database failures are logged as `event`."""
    while True:
        try:
            await run_in_threadpool(step)
        except StorageError as error:
            log.warning(event, reason=str(error))
        except Exception as error:  # a defect must not end a chore
            log.crash(error)
        await asyncio.sleep(seconds)


def _tick(service: DecoderService, log: Log) -> None:
    result = service.tick()
    service.delete_unneeded()
    if result.queued or result.ended:
        log.info("ticked", queued=result.queued, ended=result.ended)
    for schedule, why in result.problems.items():
        log.warning("schedule_blocked", schedule=schedule, reason=why)


class SafeHeaders:
    """Middleware that adds each header of HEADERS that a response does not set itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request and add the missing headers to its response."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, sending)


if __name__ == "__main__":
    print(json.dumps(create_app(ServiceSettings()).openapi(), indent=1, sort_keys=True))
