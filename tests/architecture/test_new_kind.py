"""A kind and an encoding that the product does not know work everywhere, once registered.

From the metric file over the device, the wire and the collector to the decoding, no other module
is edited: what a stranger's kind needs, the next of our own need too.
"""

from __future__ import annotations

import ast
import math
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Encoder
from collector.domain.plausibility import weight_range
from decoder import decode, metric_candidates
from metric_design import kinds as designs
from metric_design.kind_planner import KindPlanner
from metric_design.kinds import KindDesign, Level, register_kind_design
from metric_design.metric_plan import MetricToPlan, reviewed
from metric_design.plan_file import asked_of
from rappor_cli.main import main
from rappor_core.encodings import interface
from rappor_core.encodings.interface import Encoding, encoding_names, register_encoding
from rappor_core.errors import MetricsFileError, ParameterError, ValueRefusedError
from rappor_core.frozen import Frozen
from rappor_core.metrics import kinds
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.kinds import Kind, kind_names, register_kind, wrong_type
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.decode import decode_batch
from rappor_core.wire.report import BINARY_CONTENT_TYPE, make_batch
from tests.architecture.trees import nodes_of
from tests.collector.support import TODAY, served_after_a_day

DEVICES = 4_000
SHARES = {1: 0.5, 2: 0.3, 5: 0.2}
STARS = """
[metrics.rating]
kind = "stars"
stars = 5
description = "How a device likes the app"
owner = "test@example.org"
expires = 2099-06-30
num_cohorts = 4
prob_f = 0.25
prob_p = 0.25
prob_q = 0.75
max_memoized_values = 6
min_reports = 10
min_reports_per_cohort = 1
"""
STARS_TABLE = {
    "kind": "stars",
    "stars": 5,
    "description": "How a device likes the app",
    "owner": "test@example.org",
    "expires": date(2099, 6, 30),
    "num_cohorts": 4,
}


class Ring(Encoding):
    """Value i sets bit i of a ring and one more, whose distance depends on the cohort."""

    name = "ring"

    def check(self, params: RapporParams) -> None:
        if params.num_hashes != 2:
            raise ParameterError(f"num_hashes = {params.num_hashes}: a ring sets two bits, use 2")

    def index_positions(self, params: RapporParams, index: int, cohort: int) -> tuple[int, ...]:
        return index, (index + 1 + cohort) % params.num_bits

    def check_num_values(self, params: RapporParams, num_values: int) -> None:
        if num_values > params.num_bits:
            raise ParameterError(f"{num_values} values for a ring of {params.num_bits}")


class Scale(Frozen):
    """The public table of the kind: how many stars there are."""

    most: int

    def to_dict(self) -> dict[str, Any]:
        return {"most": self.most}


class Stars(Kind):
    """From one to so many stars."""

    name = "stars"
    encodings = ("ring",)
    keys = frozenset({"stars"})
    has_details = True

    def shape(self, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
        return {"num_bits": 8, "num_hashes": 2, "num_cohorts": table["num_cohorts"]}

    def read_details(self, name: str, table: Mapping[str, Any]) -> Scale:
        return Scale(table["stars"])

    def details_from_dict(self, fields: Mapping[str, Any]) -> Scale:
        return Scale(fields["most"])

    def num_values(self, metric: Metric) -> int:
        return metric.details.most

    def index(self, metric: Metric, value: object) -> int:
        if type(value) is not int or not 1 <= value <= metric.details.most:
            raise wrong_type(metric, value, "a number of stars")
        return value - 1

    def all_values(self, metric: Metric) -> Sequence[object]:
        return range(1, metric.details.most + 1)

    def names(self, definition: Mapping[str, Any]) -> Sequence[str]:
        return [str(stars) for stars in range(1, definition["details"]["most"] + 1)]


@pytest.fixture
def metric(monkeypatch: pytest.MonkeyPatch) -> Metric:
    """The declared metric, with its kind and encoding registered for one test."""
    monkeypatch.setattr(interface, "_LOADED", dict(interface._LOADED))
    monkeypatch.setattr(kinds, "_LOADED", dict(kinds._LOADED))
    register_encoding(Ring())
    register_kind(Stars())
    return parse_metrics(STARS).metrics["rating"]


def test_a_metric_file_holds_the_new_kind(metric: Metric) -> None:
    assert (metric.params.encoding, metric.num_values) == ("ring", 5)
    assert Metric.from_dict(metric.to_dict()) == metric
    six = parse_metrics(STARS.replace("stars = 5", "stars = 6")).metrics["rating"]
    assert six.params_id != metric.params_id
    with pytest.raises(MetricsFileError, match="unknown key star = 5"):
        parse_metrics(STARS.replace("stars = 5", "star = 5"))
    with pytest.raises(MetricsFileError, match="details"):
        metric.replace(details=None)


def test_the_new_kind_works_device_to_decoding(metric: Metric, tmp_path: Path) -> None:
    """Seeds are fixed; the bounds are five standard errors, as the decoding states them."""
    rng = random.Random(11)
    values = rng.choices(list(SHARES), list(SHARES.values()), k=DEVICES)
    reports = []
    for value in values:
        encoder = Encoder({metric.name: metric}, rng.randbytes(32), rng.randbytes)
        reports.append(encoder.encode(metric.name, value, TODAY))
    with pytest.raises(ValueRefusedError, match="takes a number of stars, not a float"):
        encoder.encode(metric.name, 2.5, TODAY)

    batch = make_batch(os.urandom(16), reports[:100])
    wire = encode_binary(batch)
    read = decode_batch(wire, BINARY_CONTENT_TYPE).ungrouped()
    assert sorted(read.reports) == sorted(batch.reports)

    aggregate = served_after_a_day(tmp_path, metric, reports)
    assert aggregate.num_reports == DEVICES

    decoding = decode(aggregate, metric_candidates(aggregate))
    table = decoding.candidates
    assert list(table.values) == ["1", "2", "3", "4", "5"]
    truth = [values.count(stars) / DEVICES for stars in range(1, 6)]
    for estimate, error, share in zip(table.estimate, table.std_error, truth, strict=True):
        assert abs(estimate - share) < 5 * error
    assert {row.value for row in decoding.detected} == {"1", "2", "5"}


def test_the_collector_bounds_the_new_encoding(metric: Metric) -> None:
    weights = weight_range(metric.params)
    assert 0 <= weights.lowest < weights.highest <= 8


class StarsPlanner(KindPlanner):
    """Stars from a permanent response, by the variance of a rare bit."""

    usual = {"max_memoized_values": 6}  # noqa: RUF012

    def designs(
        self, question: MetricToPlan, given: Mapping[str, Any], epsilon: float, devices: int
    ) -> Iterator[Mapping[str, Any]]:
        for one in (0.25, 0.5):
            each = epsilon / given["max_memoized_values"]
            yield {"epsilon_infinity": each, "epsilon_one": one * each}

    def precision(self, metric: Metric, devices: float) -> float:
        params = metric.params
        spread = params.p_star * (1 - params.p_star) / devices
        return math.sqrt(spread) / (params.q_star - params.p_star)

    def finding(self, metric: Metric, precision: float) -> str:
        return f"tell {metric.details.most} stars to {precision:.3f}"

    def supposed(self, metric: Metric) -> str:
        return "few have stars"


class StarsDesign(KindDesign):
    """What a reviewer should know of stars, and a part of the TypeScript client that has them."""

    name, part = "stars", "ratings"

    def findings(self, metric: Metric, population: int | None) -> Iterator[tuple[Level, str]]:
        del population
        yield "warning", f"up to {metric.details.most} stars"

    def planner(self) -> KindPlanner:
        return StarsPlanner()

    def part_options(self, metrics: Iterable[Metric]) -> Sequence[str]:
        return [f"glyphs{one.details.most}" for one in metrics]


def test_a_registered_kind_has_findings_and_types(
    metric: Metric,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, output = tmp_path / "metrics.toml", tmp_path / "metrics.ts"
    source.write_text(STARS)
    compiled = ["metrics", "compile", str(source), "--typescript", "-o", str(output)]
    assert main(compiled) == 1
    assert "kind 'stars' is not in the TypeScript client" in capsys.readouterr().err

    monkeypatch.setattr(designs, "_LOADED", dict(designs._LOADED))
    register_kind_design(StarsDesign())
    with pytest.raises(ParameterError, match="'stars' is registered already"):
        register_kind_design(StarsDesign())
    assert main(compiled) == 0
    text = output.read_text()
    assert 'import { ratings } from "rappor-telemetry-client/ratings";' in text
    assert 'import { glyphs5 } from "rappor-telemetry-client/glyphs5";' in text
    assert "record: (value: 1 | 2 | 3 | 4 | 5)" in text
    assert "kinds: [ratings({ glyphs5 })]," in text
    typed = tmp_path / "metrics.py"
    assert main(["metrics", "compile", str(source), "--python", "-o", str(typed)]) == 0
    assert "def record(self, value: Literal[1, 2, 3, 4, 5])" in typed.read_text()
    capsys.readouterr()
    main(["metrics", "check", str(source)])
    assert "up to 5 stars" in capsys.readouterr().out


def test_a_new_kind_is_planned_once_registered(
    metric: Metric, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(designs, "_LOADED", dict(designs._LOADED))
    words = ["plan", "rating", "--kind", "stars", "--epsilon", "12", "--error", "0.05"]
    assert main(words) == 1
    assert "kind = 'stars' is not planned" in capsys.readouterr().err
    monkeypatch.setattr(StarsDesign, "findings", KindDesign.findings)
    register_kind_design(StarsDesign())
    made = asked_of("rating", {**STARS_TABLE, "error": 0.05}, None)
    plan = made.planner.plan(replace(made.question, epsilon=12.0), reviewed)
    assert plan.answer.startswith("To tell 5 stars to 0.050, with epsilon 12 for life you need")
    assert parse_metrics(plan.table).declared[0] == plan.metric
    assert plan.metric.params.epsilon_one == pytest.approx(1.0, rel=1e-3)


def test_a_name_is_registered_once(metric: Metric) -> None:
    with pytest.raises(ParameterError, match="'ring' is registered already"):
        register_encoding(Ring())
    with pytest.raises(ParameterError, match="'stars' is registered already"):
        register_kind(Stars())


WORDS = set(encoding_names()) | set(kind_names())


@pytest.mark.parametrize(
    "package",
    [
        "rappor_core",
        "client_sdk",
        "collector",
        "decoder",
        "metric_design",
        "simulations",
        "rappor_cli",
    ],
)
def test_no_part_asks_for_kinds_by_name(package: str) -> None:
    root = Path(__file__).parents[2]
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in (root / package).rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.Compare) and _asks_by_name(node)
    ]
    assert not found


def _asks_by_name(node: ast.Compare) -> bool:
    """Whether it compares something called `encoding` or `kind` with the name of one."""
    parts = list(ast.walk(node))
    texts = {part.value for part in parts if isinstance(part, ast.Constant)}
    names = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    names |= {part.id for part in parts if isinstance(part, ast.Name)}
    return bool(texts & WORDS) and bool((names | texts) & {"encoding", "kind"})
