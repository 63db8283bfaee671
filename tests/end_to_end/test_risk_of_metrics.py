"""What a device can tell of a person is one figure, on every page and command that shows it."""

import json
import math
import re
import threading
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from client_sdk.inspection import inspect_state, render
from client_sdk.recording.bounds import PrivacyLevel
from client_sdk.recording.ledger import Ledger, check_ledger
from client_sdk.storage.directory import StateDirectory
from metric_design.dictionary import entries_of, write_site
from metric_design.kind_design import Question
from metric_design.plan import Plan, make_plan
from metric_design.plan_page import render_plan
from metric_design.population import given_population
from privacy_audit.audit import AuditOptions, AuditResult
from privacy_audit.report import identity, page, to_dict
from rappor_cli.main import main
from rappor_cli.metrics import metric_row
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.kinds import KINDS
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.risk import Risk, belief_text, believed, percent_up, rise_text, risk_of
from rappor_core.sequence_risk import sequence_risk
from tests.kinds.worlds import DECLARED
from tests.metric_texts import declaration

MEMO = {"epsilon_infinity": 2.0, "epsilon_one": 1.0}
SHAPE = {"num_bits": 16, "num_hashes": 2, "num_cohorts": 4}
PLACES = {
    "grid": "square", "box": [40.6, -74.1, 40.9, -73.8], "rows": 4, "columns": 4, "levels": [0],
    "slots": ["night 22-6", "day 6-22"],
}  # fmt: skip
WEB = {"platforms": ["web"], "max_reports": 2, "lives": 5}
CASES = {
    "four values": declaration(
        "m", "string", **SHAPE, **MEMO, fallback="other", max_memoized_values=4
    ),
    "one time": declaration(
        "m", "string", **SHAPE, prob_f=0.0, prob_p=0.5, prob_q=0.75, fallback="other",
        max_memoized_values=3, max_reports=3,
    ),
    "symbols, few reports": declaration(
        "m", "location", **PLACES, mode="memo", encoding="symbol", num_symbols=64, num_cohorts=8,
        epsilon_infinity=2.0, epsilon_one=0.14, max_reports=4,
    ),
    "window": declaration(
        "m", "location", **PLACES, mode="window", window=4, num_bits=16, num_cohorts=8,
        epsilon=1.0, max_reports=5,
    ),
    "number": declaration(
        "m", "number", unit="min", of_period="sum", edges=[1, 5], none="zero", mode="memo", **MEMO
    ),
    "few reports in a browser": declaration(
        "m", "boolean", epsilon_infinity=2.0, epsilon_one=0.5, max_memoized_values=2,
        platforms=["web"], max_reports=1, lives=20,
    ),
    "app and web": declaration(
        "m", "boolean", **MEMO, max_memoized_values=2, **WEB | {"platforms": ["app", "web"]}
    ),
}  # fmt: skip
CASES |= {kind: DECLARED[kind] for kind in ("category", "boolean", "discover", "pair", "flow")}


@pytest.fixture(scope="module")
def some_plan() -> Plan:
    """The texts of another metric: a test puts its own in."""
    given = {"kind": "string", "description": "d", "owner": "o", "expires": date(2099, 6, 30)}
    shares = given_population(np.array([0.3, 0.2]))
    question = Question("m", given, devices=1e6, epsilon=6.0, mode="memo", expected=shares)
    return make_plan(question)


def account_of_a_device(text: str, folder: Path) -> tuple[str, float | None]:
    """What `inspect` says of a device that has just begun, and its epsilon for life."""
    file = parse_metrics(text)
    state = StateDirectory(folder).open(threading.RLock(), check_ledger)
    try:
        assert (
            Ledger(state, None, PrivacyLevel()).agree(file.declared[0], file.declared[0].base_name)
            == ""
        )
        account = inspect_state(state)
    finally:
        state.close()
    return render(account), account["metrics"][0]["epsilon_worst_case"]


SLOW = pytest.param("symbols, few reports", marks=pytest.mark.long)


@pytest.mark.parametrize(
    "case", [SLOW if case == "symbols, few reports" else case for case in CASES]
)
def test_five_places_say_the_same_of_a_metric(case, some_plan, tmp_path, capsys) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(CASES[case])
    file = parse_metrics(CASES[case])
    metric = file.declared[0]
    risk = risk_of(metric)
    plan = replace(some_plan, metric=metric)
    day, sdk = date(2026, 11, 22), identity(None)
    audited = AuditResult("x", tuple(file.declared), AuditOptions(), 0.01, (), ())
    assert main(["metrics", "check", str(path)]) == 0
    entries = entries_of(file.declared, day)
    said = {
        "dictionary": write_site(entries, tmp_path, "").read_text(),
        "planner": render_plan(plan) if plan.forecast is not None else plan.risk,
        "check": capsys.readouterr().out,
        "audit": page(audited, day, sdk),
    }
    for place, text in said.items():
        assert risk.sentence in text, place
        sequence = sequence_risk(metric).sentence
        assert sequence in text, place
    inspected, for_life = account_of_a_device(CASES[case], tmp_path / "state")
    bound = percent_up(believed(risk.life))
    one_life = metric.lifetime_epsilon  # a device knows of one life of its storage
    assert f"at most {belief_text(one_life)} sure after everything your device" in inspected
    assert f"at most {bound} sure after everything your device" in risk.sentence
    assert for_life == pytest.approx(one_life)
    result = json.loads(json.dumps(to_dict(audited, day, sdk)))["metrics"][0]
    budget = MetricsFile({metric.name: metric}).lifetime_epsilon
    lives = [risk.worst, entries[0].life, plan.epsilon, result["lifetime_epsilon"]]
    assert lives == [pytest.approx(budget)] * 4
    listed = {"name": metric.base_name, "params_id": "", "state": "", "accepted": 0, "served": None}
    row = metric_row(listed | {"definition": metric.to_dict()})
    assert belief_text(risk.worst) in row
    assert rise_text(risk.worst) in said["dictionary"]


def test_the_files_are_of_every_kind() -> None:
    kinds = {parse_metrics(text).declared[0].kind for text in CASES.values()}
    assert kinds == set(KINDS)


def test_metrics_of_four_values_tell_of_four() -> None:
    metric = parse_metrics(CASES["four values"]).declared[0]
    assert metric.lifetime_epsilon == pytest.approx(8.0, abs=0.01)
    assert 96 < float(re.findall(r"at most ([\d.]+) %", risk_of(metric).sentence)[1]) < 97


def test_a_browser_is_counted_by_its_lives() -> None:
    alone = parse_metrics(declaration("m", "boolean", **MEMO, max_memoized_values=2, **WEB))
    both = parse_metrics(CASES["app and web"])
    only, app = risk_of(alone.declared[0]), risk_of(both.declared[0])
    assert only.life == app.web == 5 * app.life
    assert "in a browser over 5 lives of its storage" in only.sentence
    assert f"; {percent_up(believed(app.web))} in a browser over 5 lives" in app.sentence


def test_few_reports_bound_an_answer_too() -> None:
    metric = parse_metrics(CASES["few reports in a browser"]).declared[0]
    risk = risk_of(metric)
    assert risk.answer == risk.life == pytest.approx(20 * metric.epsilon_one)
    assert f"epsilon {risk.answer:.3g} for life over 20 lives" in risk.for_life


def test_metrics_together_tell_what_each_tells() -> None:
    metrics = [parse_metrics(CASES[case]).declared[0] for case in ("four values", "number")]
    each = [risk_of(metric) for metric in metrics]
    together = risk_of(*metrics)
    sums = [sum(getattr(r, name) for r in each) for name in ("report", "life", "answer")]
    assert together == Risk(*sums[:2], answer=sums[2])
    odds = math.exp(together.life) / 99
    assert believed(together.life) == pytest.approx(odds / (1 + odds))
