"""The OpenAPI document: what is in the repository, what is served, and what is answered agree."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from collector.app import create_app
from collector.settings import Settings
from tests.collector.support import TODAY, Clock, Server, make_metric, running_server

WRITTEN = Path(__file__).parents[2] / "docs" / "openapi.json"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
METRIC = make_metric(min_reports=1)
DOCUMENT = create_app(Settings()).openapi()


@schemathesis.serializer("application/toml", "message/ohttp-req")
def as_text(_context: Any, value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


def test_the_written_document_is_the_codes() -> None:
    assert json.loads(WRITTEN.read_text()) == DOCUMENT, (
        "run: python -m collector.app > docs/openapi.json"
    )


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    url = f"sqlite:///{tmp_path_factory.mktemp('openapi')}/collector.sqlite"
    with running_server([METRIC], Clock(), database=url) as server:
        server.post(server.sender.reports(METRIC, 5))
        server.http.post(f"/v1/days/{TODAY}/close")
        yield server


def test_head_is_get_without_its_body(live: Server) -> None:
    """Monitors and load balancers send it (fastapi #1773)."""
    gets = [path for path, methods in DOCUMENT["paths"].items() if "get" in methods]
    for path in [*gets, "/openapi.json"]:
        url = path.format(name=METRIC.name)
        answer = live.http.head(url)
        assert answer.status_code == live.http.get(url).status_code
        assert answer.content == b""
    assert live.http.head("/healthz").status_code == 200
    assert live.http.head("/v1/reports").status_code == 405


@pytest.fixture(scope="module")
def api(live: Server) -> Any:
    return schemathesis.openapi.from_url(f"{live.http.base_url}/openapi.json")


OPERATIONS = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]


@pytest.mark.long
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_generated_requests_get_documented_answers(api, path, method, mode) -> None:
    """Requests that fit the document, and requests that break it: none is a 500 or a surprise."""

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(case=api[path][method].as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    try:
        check()
    except Unsatisfiable:  # a request without parameters cannot break them
        assert mode is GenerationMode.NEGATIVE
