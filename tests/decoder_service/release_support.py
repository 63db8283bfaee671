"""A service that makes releases, with results of people and a policy."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from decoder import Candidates, decode, write_outputs
from decoder_service.people.permissions import Role
from decoder_service.shell.server import running_service
from decoder_service.shell.service import DecoderService
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate
from tests.decoder_service.support import Running, keep_result, result_row, settings_of, with_people
from tests.metric_texts import word

MONDAY = date(2025, 3, 3)
WORDS = ["=cmd()", "\u202egnp.exe", "<b>plain</b>", "rare"]
POLICY = """
owner = "stats@example.org"
audience = "public"
min_reports = 1000
min_low = 0.01
rounding = 0.001
reports_rounding = 100
sealed_after_days = 7
"""


@contextmanager
def releasing(database: str, key: Path | None = None, **changes: Any) -> Iterator[Running]:
    """The service with what makes releases; ana and ben are analysts, root and rita admins."""
    settings = settings_of(database, tick_seconds=0, release_key=key, **changes)
    with running_service(settings) as (url, app):
        service: DecoderService = app.state.service
        yield with_people(url, service, rita=Role.ADMIN)


def get(service: Running, who: str, path: str) -> Any:
    with service.client(who) as client:
        return client.get(path)


def decoded(folder: Path, metric_name: str, week: int, seed: int = 0, days: int = 7) -> Any:
    """Files of a decoding of one week, or of its first days with 500 reports less."""
    metric = parse_metrics(word(metric_name)).metrics[metric_name]
    rng = np.random.default_rng([seed, week])
    shares = np.array([0.5, 0.3, 0.19, 0.01])
    reports = 40_000 if days == 7 else 39_500
    one, _ = draw_aggregate(WORDS, shares, reports, metric.params, rng, metric_name)
    first = MONDAY + timedelta(days=7 * week)
    one = replace(one, definition=metric.to_dict(), params_id=metric.params_id,
                  first_day=first, last_day=first + timedelta(days=days - 1))  # fmt: skip
    out = folder / f"{metric_name}-{week}-{seed}-{days}"
    write_outputs(decode(one, Candidates.from_strings(WORDS)), out)
    return {path.name: path.read_bytes() for path in out.iterdir()}


def stored(service: Running, files: dict[str, bytes], owner: str, operation: str = "decode") -> str:
    """The id of a result of a person with these files."""
    manifest = json.loads(files["manifest.json"])
    identity = service.service.access.random_bytes(8).hex()
    known = ("metric", "params_id", "first_day", "last_day")
    row = result_row(
        identity,
        operation=operation,
        summary=json.dumps({"num_reports": 40_000, "num_detected": 3, "num_candidates": 4}),
        created=service.service.clock().timestamp(),
        **{name: manifest[name] for name in known},
    )
    return keep_result(service, row, files, owner)


def proposal(name: str, *results: str, policy: str = POLICY, **more: Any) -> dict[str, Any]:
    return {"name": name, "policy": policy, "sources": [{"result": one} for one in results]} | more


def propose(service: Running, who: str, asked: dict[str, Any]) -> dict[str, Any]:
    with service.client(who) as client:
        answer = client.post("/v1/releases", json=asked)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def settle(service: Running, who: str, release: str, act: str = "approve") -> httpx.Response:
    with service.client(who) as client:
        return client.post(f"/v1/releases/{release}/{act}", json={"reason": f"{who}: {act}"})
