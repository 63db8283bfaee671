"""`create_app`, which builds the collector as an ASGI application. Importing it builds nothing."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from importlib import import_module
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from collector import errors
from collector.chores import do_chores, run_maintenance
from collector.domain.clock import Clock, GuardedClock
from collector.domain.operations import COMMAND_LINE, Collector
from collector.routes import admin, reports
from collector.routes.dependencies import AppComponents
from collector.routes.reports import OHTTP_PATH, REPORTS_PATH, ReportsEndpoint
from collector.settings import Settings
from collector.telemetry import forget_process
from rappor_core.errors import (
    AggregateError,
    EncapsulationError,
    MetricsFileError,
    WireFormatError,
)
from rappor_core.metrics.compiled import load_metrics
from rappor_server.logs import Log, make_log, redirect_libraries
from rappor_server.problems import PROBLEM_RESPONSES, SHARED_RULES, ProblemRule, Problems, problem
from rappor_server.request_bounds import CheckedHeads
from rappor_server.schema import prepare

RULES = (
    ProblemRule(errors.BatchTooLargeError, 413, "batch-too-large"),
    ProblemRule(errors.UnsupportedMediaError, 415, "unsupported-media"),
    ProblemRule(errors.ScopeError, 403, "wrong-scope"),
    ProblemRule(errors.SenderShownError, 503, "sender-shown"),
    ProblemRule(errors.RelayKeyError, 422, "relay-key"),
    ProblemRule(errors.BatchConflictError, 409, "batch-conflict"),
    ProblemRule(errors.NotServedError, 409, "not-served"),
    ProblemRule(errors.MetricChangeError, 409, "weakens-privacy"),
    ProblemRule(
        errors.DamagedBlocksError,
        500,
        "damaged-days",
        "closed days of this metric are damaged; the operator restores a backup",
    ),
    ProblemRule(WireFormatError, 400, "not-a-batch"),
    ProblemRule(EncapsulationError, 400, "not-opened"),
    ProblemRule(MetricsFileError, 422, "bad-metrics"),
    ProblemRule(AggregateError, 422, "bad-aggregate"),
    *SHARED_RULES,
)


API_VERSION = "1"
_CORS: dict[str, Any] = {  # only for POST /v1/reports
    "allow_methods": ["POST"],
    "allow_headers": ["Authorization", "Content-Encoding", "Content-Type"],
    "expose_headers": ["Retry-After"],
    "max_age": 7200,  # seconds; Chromium caches no answer for longer
}


class BatchRoutes:
    """Middleware that answers batch POSTs itself, before FastAPI's slower layers."""

    def __init__(self, app: ASGIApp, posts: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._posts = posts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = self._posts.get(scope["path"]) if scope.get("method") == "POST" else None
        await (answer or self._app)(scope, receive, send)


class ReportsCors(CORSMiddleware):
    """Middleware that lets web pages from other origins send reports, but read nothing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = super().__call__ if scope.get("path") == REPORTS_PATH else self.app
        await answer(scope, receive, send)


def create_app(settings: Settings, *, clock: Clock | None = None) -> FastAPI:
    """Build the collector's ASGI application. The database is opened when the app starts.

    Args:
        settings: The settings of this process.
        clock: A simulated clock, UTC; None for the system clock, protected against jumps.

    Returns:
        The application, for uvicorn or a test client.
    """
    log = make_log(settings.log_level)
    redirect_libraries(log)
    parts = AppComponents(settings, clock or GuardedClock(), log)
    problems = Problems(log, RULES, settings.retry_after_seconds)
    app = FastAPI(
        title="rappor-telemetry collector",
        version=API_VERSION,
        lifespan=_lifespan(parts, log),
        responses=PROBLEM_RESPONSES,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would use the Host that the client sent, without TLS
    )
    app.state.parts = parts
    for routes in (reports, admin):
        app.include_router(routes.router)
    problems.add_handlers(app)
    ohttp: ASGIApp = problem(
        404, "not-found", "no relay is configured here: the setting ohttp_keys names a key file"
    )
    if parts.relay_keys is not None:  # its code is loaded only if configured
        module = import_module("collector.routes.ohttp")
        ohttp = module.OhttpEndpoint(parts, problems, parts.relay_keys)
    posts: dict[str, ASGIApp] = {REPORTS_PATH: ReportsEndpoint(parts, problems), OHTTP_PATH: ohttp}
    app.add_middleware(BatchRoutes, posts=posts)
    if settings.allowed_origins:
        app.add_middleware(ReportsCors, settings.allowed_origins, **_CORS)
    app.add_middleware(CheckedHeads)
    return app


def prepare_database(settings: Settings, clock: Clock | None = None) -> list[str]:
    """Create or check the database tables, and declare the settings' metrics.

    Return the metrics in the settings' file that were retired and remain so. Raises SettingsError,
    SchemaError, StorageError, MetricsFileError or MetricChangeError.
    """
    metrics = None if settings.metrics is None else load_metrics(settings.metrics)
    with closing(settings.open_database(1)) as database:
        prepare(database)
        if metrics is None:
            return []
        collector = Collector(database, clock=clock)
        return collector.push_metrics(metrics.metrics.values(), COMMAND_LINE).still_retired


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
        chores = asyncio.create_task(run_maintenance(parts, log))
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
