"""A web service whose own choices are counted: one client a process, opened with the app.

COLLECTOR=http://127.0.0.1:8000 uvicorn app:app
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request

from client_sdk import Client

METRICS = Path(__file__).with_name("metrics.toml")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the client when the service starts. Each installation is a device: consent is its
    operator's, and the state belongs to it alone."""
    app.state.telemetry = Client.open(
        METRICS,
        state_dir=os.environ.get("STATE_DIR", "telemetry-state"),
        collector=os.environ["COLLECTOR"],
        key=os.environ.get("RAPPOR_REPORT_KEY"),
        consent=os.environ.get("TELEMETRY") == "yes",
    )
    yield
    app.state.telemetry.close()


app = FastAPI(lifespan=lifespan)


@app.put("/start-page")
async def set_start_page(url: str, request: Request) -> dict[str, str]:
    """`record` takes some 30 microseconds and never waits for the network: no thread is needed."""
    request.app.state.telemetry.record("homepage", url)
    return {"start_page": url}


@app.get("/telemetry")
def telemetry(request: Request) -> dict[str, object]:
    """What this installation queued, sent and can be known by, for its operator."""
    account: dict[str, object] = request.app.state.telemetry.inspect()
    return account
