"""A request of one person does not read through what others have, however much that is."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from decoder_service.people.permissions import Role
from tests.decoder_service.support import running, with_people
from tests.decoder_service.test_pages import decoded, stored

GROWING = ("results", "result_readers", "result_files", "jobs", "aggregates", "aggregate_readers")
PAGES = ("/", "/jobs", "/results", "/lists", "/releases", "/schedules", "/metrics")
STATES = "/readyz"  # says 503 where no worker runs


@pytest.fixture
def queries() -> Iterator[dict[str, Any]]:
    """The SELECTs that are run, with the parameters of one."""
    seen: dict[str, Any] = {}

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT"):
            seen[statement] = parameters

    event.listen(Engine, "before_cursor_execute", note)
    yield seen
    event.remove(Engine, "before_cursor_execute", note)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.ANALYST, Role.ADMIN])
def test_no_list_reads_a_whole_growing_table(
    role: Role, tmp_path: Path, queries: dict[str, Any]
) -> None:
    files, summary = decoded(tmp_path, 0)
    file = tmp_path / "decoder.sqlite"
    with running(f"sqlite:///{file}") as service:
        crowd = with_people(service.url, service.service, asking=role)
        theirs = replace(crowd, people={"ana": crowd.people["asking"]})
        stored(theirs, 1, files, summary)
        with crowd.client("asking") as client:
            paths = client.get("/openapi.json").raise_for_status().json()["paths"]
            lists = [path for path, verbs in paths.items() if "get" in verbs and "{" not in path]
            queries.clear()
            (one,) = client.get("/v1/results").json()["results"] or [None]
            own = (f"/v1/results/{one['id']}", f"/results/{one['id']}") if one else ()
            assert own or role is Role.VIEWER
            for path in (*lists, *PAGES, *own):
                status = client.get(path, follow_redirects=True).status_code
                assert status in ({503} if path == STATES else {200, 403}), path
        assert len(queries) > 10
        with closing(sqlite3.connect(file)) as database:
            plans = {
                statement: [
                    step[3] for step in database.execute(f"EXPLAIN QUERY PLAN {statement}", given)
                ]
                for statement, given in queries.items()
            }
    whole = {f"SCAN {table}" for table in GROWING}
    assert [statement for statement, plan in plans.items() if whole & set(plan)] == []
