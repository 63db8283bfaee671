"""docker/monitoring: the dashboard and the alert rules name what both services really count."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from collector.telemetry import Telemetry
from decoder_service.shell.app import prometheus_text
from decoder_service.shell.service import make_service
from decoder_service.shell.settings import ServiceSettings
from rappor_server.schema import prepare

FOLDER = Path(__file__).parents[2] / "docker" / "monitoring"
FUNCTIONS = {
    "sum", "max", "rate", "increase", "delta", "histogram_quantile", "and", "or", "by", "le",
    "reason", "status", "key", "state", "up", "job",
}  # fmt: skip
NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Names of the samples of both services, with the values of their label `state`."""
    path = tmp_path_factory.mktemp("monitoring") / "d.sqlite"
    service = make_service(ServiceSettings(database=f"sqlite:///{path}"))
    prepare(service.database)
    texts = Telemetry().render(), prometheus_text(service)
    service.close()
    found: dict[str, set[str]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text.decode()):
            found.setdefault(family.name, set())
            for sample in family.samples:
                states = found.setdefault(sample.name, set())
                states.update({sample.labels["state"]} if "state" in sample.labels else ())
            if family.type == "counter":
                found.setdefault(f"{family.name}_total", set())
            if family.type == "histogram":
                found.setdefault(f"{family.name}_bucket", set())
    return found


def rules() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]:
        yield from group["rules"]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / "grafana.json").read_text())["panels"]
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (one["expr"] for panel in panels() for one in panel.get("targets", []))


def test_every_expression_is_of_what_is_counted(counted: dict[str, set[str]]) -> None:
    for text in expressions():
        assert text.count("(") == text.count(")"), text
        plain = re.sub(r'"[^"]*"|\[\d+[mhd]\]', "", text)
        names = set(NAME.findall(plain)) - FUNCTIONS
        assert names <= counted.keys(), (names - counted.keys(), text)
        for name, states in re.findall(r'(rappor_\w+)\{state=~?"([^"]*)"\}', text):
            assert set(states.split("|")) <= counted[name], text


def test_every_counter_of_the_services_has_a_place(counted: dict[str, set[str]]) -> None:
    shown = set(NAME.findall(" ".join(expressions())))
    parts = ("_bucket", "_total", "_created", "_sum", "_count")
    roots = {re.sub(f"({'|'.join(parts)})$", "", name) for name in counted}
    missing = {one for one in roots if not any(name.startswith(one) for name in shown)}
    assert missing == {"rappor_open_days"}  # a setting of the metrics, not a state
