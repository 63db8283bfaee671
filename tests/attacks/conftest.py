"""Fixtures of the attacks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from rappor_core.metrics.metric import Metric
from tests.collector.support import Clock, Server, ServerMaker, running_server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An empty SQLite database."""
    return f"sqlite:///{tmp_path}/collector.sqlite"


@pytest.fixture
def serving(sqlite_url: str) -> ServerMaker:
    """Runs a collector in this process, by a clock that stands still."""

    def serve(
        metrics: list[Metric] | None = None, **changes: Any
    ) -> AbstractContextManager[Server]:
        return running_server(metrics, Clock(), **({"database": sqlite_url} | changes))

    return serve
