"""`create_app`: the collector as an ASGI application. Nothing is built at import."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from collector.broker.broker_queue import BrokerQueue
from collector.chores import do_chores, keep_house
from collector.domain.access import KeyKeeper
from collector.domain.batch_writer import ReportWriter
from collector.domain.clock import Clock, GuardedClock
from collector.domain.commit_queue import Bounds, CommitQueue
from collector.domain.operations import COMMAND_LINE, Collector
from collector.domain.report_validation import ReportJudge
from collector.errors import SettingsError
from collector.problems import RULES
from collector.request_body import GzipBounds
from collector.routes import admin, aggregates, reports
from collector.routes.dependencies import AppComponents, BatchQueue, make_limits
from collector.routes.limits import SenderShares
from collector.routes.reports import OHTTP_PATH, REPORTS_PATH, ReportsEndpoint
from collector.settings import Settings
from collector.store.database import CollectorDatabase, make_engine, try_to_read, try_to_write
from collector.telemetry import Telemetry, forget_process
from rappor_core.metrics.compiled import load_metrics
from rappor_server.logs import Log, make_log, redirect_libraries
from rappor_server.problems import PROBLEM_RESPONSES, Problems, problem
from rappor_server.readiness import Readiness
from rappor_server.request_bounds import CheckedHeads
from rappor_server.schema import check_connections, prepare

if TYPE_CHECKING:
    from collector.domain.relay_keys import RelayKeys

API_VERSION = "1"
LARGE_BODIES = 2
_ANSWER = 3  # database_seconds that the transaction of a group of batches may last
_CORS: dict[str, Any] = {  # of POST /v1/reports alone
    "allow_methods": ["POST"],
    "allow_headers": ["Authorization", "Content-Encoding", "Content-Type"],
    "expose_headers": ["Retry-After"],
    "max_age": 7200,  # seconds: the longest that Chromium remembers an answer
}


class BatchRoutes:
    """Middleware that answers a POST of a batch before the layers that other routes need."""

    def __init__(self, app: ASGIApp, posts: Mapping[str, ASGIApp]) -> None:
        """posts: the routes of batches, by path."""
        self._app = app
        self._posts = posts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = self._posts.get(scope["path"]) if scope.get("method") == "POST" else None
        await (answer or self._app)(scope, receive, send)


class ReportsCors(CORSMiddleware):
    """Lets pages of other origins send reports, and read nothing else."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = super().__call__ if scope.get("path") == REPORTS_PATH else self.app
        await answer(scope, receive, send)


def create_app(settings: Settings, *, clock: Clock | None = None) -> FastAPI:
    """Build the collector's ASGI application for these settings. The database is opened when the
    app starts.

    clock: a simulated one, UTC; the system's, guarded, if None.
    """
    log = make_log(settings.log_level)
    redirect_libraries(log)
    parts = _make_parts(settings, clock or GuardedClock(), log)
    problems = Problems(log, RULES, settings.retry_after_seconds)
    app = FastAPI(
        title="rappor-telemetry collector",
        version=API_VERSION,
        lifespan=_lifespan(parts, log),
        responses=PROBLEM_RESPONSES,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # to an address made of the Host that the client sent, without TLS
    )
    app.state.parts = parts
    for routes in (reports, admin, aggregates):
        app.include_router(routes.router)
    problems.add_handlers(app)
    posts: dict[str, ASGIApp] = {
        REPORTS_PATH: ReportsEndpoint(parts, problems),
        OHTTP_PATH: _make_ohttp(parts, problems) or _no_relay,
    }
    app.add_middleware(BatchRoutes, posts=posts)
    if settings.allowed_origins:
        app.add_middleware(ReportsCors, settings.allowed_origins, **_CORS)
    app.add_middleware(CheckedHeads)
    return app


def _make_parts(settings: Settings, clock: Clock, log: Log) -> AppComponents:
    collector = Collector(_database(settings, settings.database_connections), clock=clock)
    writing = _database(settings, 1, max_seconds=_ANSWER * settings.database_seconds)
    judge = ReportJudge(refuse_implausible=settings.refuse_implausible)
    writer = ReportWriter(writing, judge, clock, settings.clock_skew, settings.max_batch_reports)
    telemetry = Telemetry()
    queue, readiness = _make_queue(settings, collector, writing, writer, judge, telemetry, log)
    return AppComponents(
        settings=settings,
        collector=collector,
        queue=queue,
        keys=KeyKeeper(collector.key_ring),
        telemetry=telemetry,
        large_bodies=asyncio.Semaphore(LARGE_BODIES),
        body_bounds=GzipBounds(
            settings.max_body_bytes, settings.body_seconds, settings.max_inflated_bytes
        ),
        limits=make_limits(settings),
        shares=SenderShares(),
        writing=writing,
        readiness=readiness,
        relay_keys=_relay_keys(settings),
    )


def _relay_keys(settings: Settings) -> RelayKeys | None:
    """The keys of devices behind a relay, where one is set up. Raises SettingsError."""
    if settings.ohttp_keys is None:
        return None
    try:
        module = import_module("collector.domain.relay_keys")
    except ModuleNotFoundError as error:
        raise SettingsError(
            "ohttp_keys needs the library cryptography: pip install 'rappor-telemetry[relay]'"
        ) from error
    return cast("RelayKeys", module.RelayKeys(settings.ohttp_keys))


def _make_ohttp(parts: AppComponents, problems: Problems) -> ASGIApp | None:
    """The route for requests through a relay; its code is loaded where one is set up."""
    if parts.relay_keys is None:
        return None
    module = import_module("collector.routes.ohttp")
    return cast(ASGIApp, module.OhttpEndpoint(parts, problems, parts.relay_keys))


async def _no_relay(scope: Scope, receive: Receive, send: Send) -> None:
    text = "no relay is set up here: the setting ohttp_keys names a file of keys"
    await problem(404, "not-found", text)(scope, receive, send)


def _make_queue(
    settings: Settings,
    collector: Collector,
    writing: CollectorDatabase,
    writer: ReportWriter,
    judge: ReportJudge,
    telemetry: Telemetry,
    log: Log,
) -> tuple[BatchQueue, Readiness]:
    """Who takes batches, and how it is found out whether they can be taken."""
    if settings.broker is not None:
        front = BrokerQueue(settings, collector, judge, telemetry.on_commit, log)
        return front, Readiness(front.check, front.check, lambda: front.is_failing)
    queue = CommitQueue(
        writer.write,
        Bounds(settings.max_queued_bytes, settings.max_group_reports),
        on_commit=telemetry.on_commit,
        on_crash=log.crash,
    )
    read, write = (partial(act, writing) for act in (try_to_read, try_to_write))
    return queue, Readiness(read, write, lambda: queue.is_failing or writing.is_failing)


def _database(
    settings: Settings, connections: int, max_seconds: float = 120.0
) -> CollectorDatabase:
    engine = make_engine(
        settings.database, pool_size=connections, timeout=settings.database_seconds
    )
    return CollectorDatabase(engine, max_seconds=max_seconds)


def prepare_database(settings: Settings, clock: Clock | None = None) -> tuple[str, ...]:
    """Create the tables in an empty database, check any other, and declare the metrics of the
    settings' file.

    Returns the metrics of the file that were retired, and stay so.

    Raises SettingsError, SchemaError, StorageError, MetricsFileError or MetricChangeError.
    """
    metrics = None if settings.metrics is None else load_metrics(settings.metrics)
    database = _database(settings, 1)
    try:
        check_connections(database, settings.connections, settings.who_connects)
        prepare(database)
        if metrics is not None:
            collector = Collector(database, clock=clock)
            push = collector.push_metrics(metrics.metrics.values(), COMMAND_LINE)
            return push.still_retired
        return ()
    finally:
        database.close()


def _start(parts: AppComponents) -> None:
    prepare_database(parts.settings, parts.collector.clock)
    parts.keys.refresh()
    do_chores(parts)
    parts.queue.start()


def _lifespan(
    parts: AppComponents, log: Log
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(_start, parts)
        chores = asyncio.create_task(keep_house(parts, log))
        log.info("started", database=parts.collector.database.engine.dialect.name)
        try:
            yield
        finally:
            chores.cancel()
            await run_in_threadpool(parts.queue.stop)
            parts.collector.database.close()
            parts.writing.close()
            forget_process()
            log.info("stopped")

    return lifespan


if __name__ == "__main__":
    print(json.dumps(create_app(Settings()).openapi(), indent=1, sort_keys=True))
