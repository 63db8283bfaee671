"""Requests that nobody should send: each gets a problem document, none a 5xx."""

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from decoder_service.shell.app import create_app, prometheus_text
from decoder_service.shell.settings import ServiceSettings
from tests.decoder_service.support import Running, decode_spec, running, submit
from tests.decoder_service.test_bodies import all_routes

REQUESTS = int(os.environ.get("RAPPOR_TEST_REQUESTS", "600"))
HOSTILE = json.loads(Path(__file__).with_name("hostile_values.json").read_text())
TEXTS: list[str] = [*HOSTILE["texts"], "é" * 300, "x" * 5000]
VALUES: list[Any] = [*HOSTILE["values"], *TEXTS]
BODIES = [
    b"",
    b"\xff\xfe",
    b"{",
    b"[" * 20_000,
    b'"\\ud800"',
    b'{"kind": NaN}',
    b"\x1f\x8b" + b"0" * 100,
    b"null",
]
KEYS = ("kind", "source", "candidates", "options", "map", "each", "before", "name")
KEYS += ("role", "label", "key", "shared", "released")


def hostile_request(rng: random.Random, method: str, path: str) -> dict[str, Any]:
    """A request for a route, with text in its path, query, headers and body that breaks rules."""
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + rng.choice(TEXTS[3:]).replace("/", "%2F").replace("\x00", "%00")
        path += rest.partition("}")[2]
    names = ["limit", "offset", "state", "format", "name", "version", "metric", "column", "x"]
    query = {rng.choice(names): str(rng.choice(VALUES)) for _ in range(rng.randrange(3))}
    body = rng.choice(BODIES)
    if rng.random() < 0.7:
        chosen = {rng.choice(KEYS): rng.choice(VALUES) for _ in range(rng.randrange(5))}
        if rng.random() < 0.5:
            chosen |= {
                "operation": "decode",
                "source": rng.choice([*VALUES, {"aggregates": VALUES}]),
            }
        body = json.dumps(chosen).encode()
    types = ["application/json", "text/plain", "", "multipart/form-data", "application/json; x=1"]
    return {
        "method": method,
        "url": path,
        "params": query,
        "content": body,
        "headers": {"content-type": rng.choice(types)},
    }


SECRET = "a value of the other analyst"
SESSION = "rappor_decoder_session"


def owned_by_ana(served: Running) -> list[str]:
    """Ids of what another analyst must not see, each holding SECRET."""
    with served.client("ana") as ana:
        name = f"of ana {len(ana.get('/v1/lists').json()['lists'])}"
        listed = ana.post(f"/v1/lists?name={name}&source={SECRET}", content=f"{SECRET}\n".encode())
        spec = decode_spec(ana, candidates={"list": listed.json()["id"]})
        job = submit(ana, spec)
    return [listed.json()["id"], job, spec["source"]["aggregates"][0]]


def attack(served: Running, who: str | None, count: int) -> None:
    """Send hostile requests to every route and page, some with ids of another analyst's things."""
    rng, ids = random.Random(15), owned_by_ana(served)
    with served.client(who) as client:
        paths = client.get("/openapi.json").json()["paths"]
        routes = [(m.upper(), p) for p, methods in paths.items() for m in methods]
        routes += [(min(route.methods), route.path) for route in all_routes()]
        routes = sorted({route for route in routes if route[1] != "/readyz"})  # 503: its meaning
        for number in range(count):
            method, path = routes[number % len(routes)]
            while who in (None, "ben", "vic") and "{" in path and rng.random() < 0.5:
                path = re.sub(r"{[^}]+}", rng.choice(ids), path, count=1)
            request = hostile_request(rng, method, path)
            answer = client.request(**request)
            assert answer.status_code < 500, (request, answer.text)
            if answer.status_code >= 400 and path.startswith("/v1/"):
                assert answer.headers["content-type"] == "application/problem+json", request
                assert answer.json()["status"] == answer.status_code
            assert answer.headers["x-content-type-options"] == "nosniff"
            given = answer.headers.get("set-cookie", "")  # an empty one takes a session away
            assert not given.startswith(SESSION) or given.startswith(f'{SESSION}=""'), request
            if who in (None, "ben", "vic"):
                assert SECRET not in answer.text, request
    assert 'rappor_decoder_jobs{state="running"} 0.0' in prometheus_text(served.service).decode()


@pytest.mark.parametrize("who", ["root", "ben", None])
def test_hostile_requests_get_problem_documents(served: Running, who: str | None) -> None:
    attack(served, who, REQUESTS // 4)


def test_quotas_end_in_words(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    with running(url, max_jobs_of_person=2) as served, served.client("ana") as ana:
        asked = decode_spec(ana)
        answers = [
            ana.post("/v1/jobs", json={**asked, "options": {"alpha": a}})
            for a in (0.01, 0.02, 0.02, 0.03)
        ]
        assert [one.status_code for one in answers] == [202, 202, 202, 429]
        assert answers[1].json()["id"] == answers[2].json()["id"]  # the same job, asked for twice
        assert "the maximum" in answers[3].json()["detail"]


WRITTEN = Path(__file__).parents[2] / "docs" / "openapi-decoder.json"


def test_the_written_document_matches_the_code(settings: ServiceSettings) -> None:
    made = json.loads(json.dumps(create_app(settings).openapi()))
    assert json.loads(WRITTEN.read_text()) == made, (
        "run: python -m decoder_service.shell.app > docs/openapi-decoder.json"
    )


def test_head_is_get_without_its_body(served: Running) -> None:
    """Monitors and load balancers send it (fastapi #1773)."""
    with served.client("root") as root, served.client(None) as nobody:
        for client in (root, nobody):
            for path in ("/healthz", "/openapi.json", "/v1/jobs", "/sign-in", "/jobs"):
                answer = client.head(path)
                assert (answer.status_code, answer.content) == (client.get(path).status_code, b"")
        assert root.head("/v1/jobs").status_code == 200
        assert nobody.head("/v1/jobs").status_code == 401


def test_bodies_are_bounded(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    bounds = {"max_body_bytes": 2000, "max_upload_bytes": 200_000, "body_seconds": 0.5}
    with running(url, **bounds) as served, served.client("ana") as ana:

        def endless() -> Any:
            for _ in range(1000):
                yield b"a" * 1000

        assert ana.post("/v1/jobs", content=b" " * 3000).status_code == 413
        assert ana.post("/v1/jobs", content=endless()).status_code == 413
        assert ana.post("/v1/lists?name=big", content=endless()).status_code == 413
        assert ana.post("/v1/lists?name=small", content=b"a\n" * 5000).status_code == 201
