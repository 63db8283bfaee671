"""The rivals of bench_collect.py, `plain` and `bare`, served by the same uvicorn."""

import base64
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from datetime import date, timedelta
from hashlib import blake2b
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import Column, Date, Integer, LargeBinary, MetaData, String, Table, insert

from collector.domain.batch_writer import ReportWriter
from collector.domain.clock import utc_now
from collector.domain.commit_queue import CommitQueue
from collector.domain.operations import Collector
from collector.domain.report_validation import ReportJudge
from collector.domain.submission import Submission
from collector.routes.reports import answer
from collector.settings import Settings, load_settings
from collector.store.database import CollectorDatabase
from rappor_core.metrics.compiled import load_metrics
from rappor_core.wire.binary import decode_binary
from rappor_server.database import make_engine
from rappor_server.schema import prepare


class ReportModel(BaseModel):
    metric: str
    params_id: str
    cohort: int
    day: date
    bits: str


class BatchModel(BaseModel):
    version: int
    batch_id: str
    reports: list[ReportModel]


def plain(settings: Settings) -> FastAPI:
    """Return a first version: a model, one row per report, one transaction per request."""
    engine = make_engine(settings.database, pool_size=32)
    writing = engine.execution_options(writes=True)
    metadata = MetaData()
    reports = Table(
        "reports",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("batch_id", String(32)),
        Column("metric", String(128)),
        Column("params_id", String(32)),
        Column("cohort", Integer),
        Column("day", Date),
        Column("bits", LargeBinary),
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        metadata.create_all(engine)
        yield
        engine.dispose()

    app = FastAPI(lifespan=lifespan)

    @app.get("/healthz")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/reports")
    def post(batch: BatchModel) -> dict[str, Any]:
        rows = [
            report.model_dump(exclude={"bits"})
            | {"batch_id": batch.batch_id, "bits": base64.b64decode(report.bits)}
            for report in batch.reports
        ]
        with writing.begin() as connection:
            connection.execute(insert(reports), rows)
        return {"batch_id": batch.batch_id, "results": [{"status": "accepted"} for _ in rows]}

    return app


Message = MutableMapping[str, Any]


def bare(settings: Settings) -> Callable[..., Awaitable[None]]:
    """Return an ASGI function with the same decoder, writer and counters, but no checks."""
    database = CollectorDatabase(make_engine(settings.database))
    prepare(database)
    metrics = load_metrics(str(settings.metrics)).metrics.values()
    Collector(database).push_metrics(metrics, "bench")
    judge = ReportJudge(refuse_implausible=False)
    writer = ReportWriter(database, judge, utc_now, timedelta())
    queue = CommitQueue(
        writer.write,
        max_queued_bytes=64 << 20,
        max_group=50_000,
        on_commit=lambda _seconds, _failed: None,
        on_crash=lambda error: print(error, file=sys.stderr),
    )
    queue.start()

    async def app(
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        body = b""
        if scope["method"] == "POST":
            while True:
                message = await receive()
                body += message.get("body", b"")
                if not message.get("more_body"):
                    break
            batch = decode_binary(body)
            digest = blake2b(body, digest_size=16).digest()
            body = answer(await queue.submit(Submission(batch, digest, len(body))))
        else:
            body = json.dumps({"status": "ok"}).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def main() -> None:
    settings = load_settings()
    app: Any = {"plain": plain, "bare": bare}[sys.argv[1]](settings)
    lifespan = "on" if sys.argv[1] == "plain" else "off"
    config = uvicorn.Config(
        app, http="h11", access_log=False, log_level="warning", lifespan=lifespan
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=settings.listen_fd)])


if __name__ == "__main__":
    main()
