"""`rappor plan` of numbers, places, flows and discovery.

What is recommended is checked by the command that the reader will use, `rappor metrics check`.
"""

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from decoder.errors import PlanError
from metric_design.cohorts import reports_to_serve
from metric_design.kind_design import Question, kind_design
from metric_design.plan import make_plan, merged_sentence
from metric_design.review import Finding
from metric_design.search import reviewed, toml_table
from rappor_cli.main import main
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile

BOX = ["--set", "box = [42.0, -72.8, 42.5, -72.4]", "--set"]
EDGES = ["--kind", "number", "--set", "edges = { scale = 'linear', from = 0, to = 100 }"]
MEAN = [*EDGES, "--set", "ask = 'mean'"]
KINDS = {
    "mean": MEAN,
    "curve": EDGES,
    "map": ["--kind", "location", *BOX, "levels = [12]"],
    "maps": ["--kind", "location", *BOX, "levels = [12]", "--periods", "30"],
    "flow": ["--kind", "flow", *BOX, "levels = [11, 13]"],
    "discover": ["--kind", "discover"],
    "boolean": ["--kind", "boolean"],
}
HEAD = 'description = "d"\nowner = "o@example.org"\nexpires = 2090-01-01\n'


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["plan", "planned", *words, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def warned(text: str, devices: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the check warns of in the text of a metrics.toml."""
    file = folder / "metrics.toml"
    file.write_text(text)
    capsys.readouterr()
    assert main(["metrics", "check", str(file), "--population", str(devices), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return [one["message"] for one in found if one["level"] != "note"]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["plan", "planned", *words]) == 1
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("devices", "epsilon"),
    [
        (8_000, 3.0),
        pytest.param(60_000, 2.0, marks=pytest.mark.long),
        pytest.param(2_000_000, 1.0, marks=pytest.mark.long),
    ],
)
def test_no_plan_of_any_kind_is_warned_of(
    kind: str, devices: int, epsilon: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if (kind, devices) == ("flow", 8_000):
        return  # its ten cohorts have no crowd of so few
    words = [*KINDS[kind], "--devices", str(devices), "--epsilon", str(epsilon)]
    told = planned(capsys, *words)
    assert warned(told["metrics_toml"], devices, tmp_path, capsys) == []


@pytest.mark.long
def test_answers_come_first_and_declarations_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "latency", *MEAN, "--error", "0.5", "--epsilon", "2"]
    assert main([*words, "-o", str(tmp_path / "plan")]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "To tell the mean of numbers from 0 to 100 units to 0.5 units either way, 19 times in 20, "
        "with epsilon 2 for life you need "
    )
    assert "mode = 'memo', as a series over time needs, takes " in text
    assert "Supposed: all devices have data" in text
    snippet = text[text.index("budget = 2") : text.index("written: ")].strip()
    assert (tmp_path / "plan" / "metrics.toml").read_text().strip() == snippet
    told = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert told["metrics_toml"].strip() == snippet
    needed = told["devices"]
    assert warned(snippet, needed, tmp_path, capsys) == []
    again = planned(capsys, *MEAN, "--devices", str(needed * 0.9), "--epsilon", "2")
    assert again["precision"] > 0.5  # so many are needed


@pytest.mark.long
def test_unreachable_errors_say_what_would_reach_them(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*MEAN, "--error", "0.1", "--devices", "5000"]
    said = refused(capsys, *words)
    assert "is not reached by any epsilon" in said
    found = re.search(r"([\d,]+) devices with epsilon 6", said)
    assert found is not None, said
    words[words.index("--devices") + 1] = found[1]
    assert planned(capsys, *words)["epsilon_life"] <= 6.01


def test_days_that_are_merged_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    few = planned(capsys, *KINDS["maps"], "--devices", "60k", "--epsilon", "2")
    assert "days are served as one: 60,000 devices send 2,000 reports" in few["merged"]
    many = planned(capsys, *KINDS["map"], "--devices", "60k", "--epsilon", "2")
    assert many["merged"] is None


def test_check_and_plan_count_days_alike() -> None:
    text = """
    [metrics.heat]
    kind = "location"
    grid = "quadkey"
    box = [42.0, -72.8, 42.5, -72.4]
    levels = [13]
    description = "d"
    owner = "o@example.org"
    expires = 2090-01-01
    num_cohorts = 64
    num_bits = 32
    epsilon = 1.0
    mode = "window"
    window = 30
    max_reports = 3
    """
    (metric,) = parse_metrics(text).declared
    needed, devices = reports_to_serve(metric), 4_000
    said = [one.message for one in reviewed(parse_metrics(text), devices)]
    (told,) = re.findall(r"days are served (\d+) at a time", " ".join(said))
    assert int(told) == pytest.approx(needed / (devices / 30), abs=1)  # a thirtieth a day
    planned = merged_sentence(metric, devices)
    assert planned is not None
    assert int(planned.split()[0]) == pytest.approx(int(told), abs=1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kind", "pair", "--devices", "1M"], "kind = 'pair' is not planned; planned are string"),
        (["--kind", "number", "--set", "a=" + "[" * 9999], "is not KEY=VALUE as in metrics.toml"),
        ([*MEAN, "--set", "epsilon=1.0", "--epsilon", "1"], "epsilon = 1.0 is chosen by the plan"),
        ([*MEAN, "--devices", "1M"], "error and epsilon are not known for planned: give --epsilon"),
        ([*MEAN, "--epsilon", "1", "--values", "8"], "--values = 8 has no use for kind 'number'"),
    ],
)
def test_errors_name_the_value(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, *words)


@pytest.mark.parametrize(
    ("kind", "keys", "message"),
    [
        ("location", ("box = [42.0, -72.8, 42.5, -72.4]", "levels = 3"), "levels = 3"),
        ("flow", (BOX[1], "levels = [9]", "bands_km = 3"), "bands_km = 3 is not a list"),
        ("discover", ("num_levels = 'x'",), "num_levels = 'x' is not a whole"),
    ],
)
def test_bad_keys_are_refused_in_a_sentence(
    kind: str, keys: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [word for key in keys for word in ("--set", key)]
    said = refused(capsys, "--kind", kind, *options, "--devices", "100k", "--epsilon", "3")
    assert said.count(message) == 1  # not once for each mode


LOAD = {
    "kind": "number", "description": "d", "owner": "o@example.org", "expires": date(2090, 1, 1),
    "unit": "min", "of_period": "sum", "edges": [1, 5], "none": "zero", "mode": "once",
    "max_reports": 1,
}  # fmt: skip
IN_A_BROWSER = {"platforms": ["web"], "lives": 5}


def load(name: str = "load", **changes: Any) -> Question:
    return Question(name=name, given=LOAD | changes, devices=1e5)


def test_a_budget_counts_lives_of_browsers() -> None:
    """A plan of 2 nats was one that its own file counted as 10."""
    plan = make_plan(replace(load(**IN_A_BROWSER), devices=5e7, epsilon=3))
    file = parse_metrics(plan.file_text)  # refuses what its budget does not hold
    assert file.lifetime_epsilon == plan.epsilon == pytest.approx(3, rel=0.02)
    assert plan.left == pytest.approx(3 - plan.epsilon)
    assert "for life over 5 lives of a browser's storage" in plan.answer


def test_browsers_and_apps_have_a_budget_each() -> None:
    """5 nats of the one and 4 of the other are 5, not 9."""
    web = toml_table("other", LOAD | IN_A_BROWSER | {"lives": 2, "epsilon": 2.5})
    known = parse_metrics(f"budget = 6\n{web}")
    assert known.lifetime_epsilon == pytest.approx(5, abs=0.01)
    shared = make_plan(load(), known)  # all of 6 are left in an app
    assert shared.epsilon == pytest.approx(6, abs=0.02)
    assert shared.left == pytest.approx(0, abs=0.02)
    with pytest.raises(PlanError, match="others 5"):
        make_plan(load(), MetricsFile(known.metrics, 3))
    with pytest.raises(PlanError, match="'other' is in the file already"):
        make_plan(load("other"), known)


def test_a_plan_warns_of_no_day(capsys: pytest.CaptureFixture[str]) -> None:
    """Lives that Safari may begin until a metric expires are counted from today, not from 2000."""
    day = datetime.now(UTC).date() + timedelta(days=30)
    given = LOAD | IN_A_BROWSER | {"expires": day}
    keys = [line for line in toml_table("x", given).splitlines()[1:] if "kind" not in line]
    words = [word for key in keys for word in ("--set", key)]
    assert main(["plan", "--kind", "number", *words, "--devices", "10M", "--epsilon", "20"]) == 0
    assert "Safari" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "keys", "told"),
    [
        ("number", 'unit = "s"\nof_period = "max"\nedges = [1, 2, 5]\nnone = "apart"\n'
         'mode = "once"\nepsilon = 2.0\n', lambda p: f"{100 * p:.1f} points either way"),
        ("flow", 'grid = "quadkey"\nbox = [42.0, -72.8, 42.5, -72.4]\nlevels = [11, 13]\n'
         'from = "night 22-6"\nto = "work 9-17"\nbands_km = [1, 5]\nmode = "once"\n'
         "epsilon = 2.0\nnum_symbols = 8\nnum_cohorts = 80\n",
         lambda p: f"a flow of {100 * p:.2g} % is detected"),
        ("location", 'grid = "quadkey"\nbox = [42.0, -72.8, 42.5, -72.4]\nlevels = [13]\n'
         'mode = "once"\nnum_bits = 32\nnum_cohorts = 64\nepsilon = 2.0\n',
         lambda p: f"is expected to be {p:.2f} off"),
        ("discover", 'epsilon_infinity = 2.0\nmax_reports = 1\nmax_memoized_values = 2\n'
         'fallback = "other"\nnum_cohorts = 100\n', lambda p: f"a string that {100 * p:.3g} %"),
    ],
)  # fmt: skip
def test_the_check_and_the_plan_have_one_prediction(
    kind: str, keys: str, told: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'budget = 9.0\n\n[metrics.one]\nkind = "{kind}"\n{HEAD}{keys}'
    file = tmp_path / "metrics.toml"
    file.write_text(text)
    precision = kind_design(kind).precision(parse_metrics(text).declared[0], 100_000)
    assert main(["metrics", "check", str(file), "--population", "100000"]) == 0
    assert told(precision) in capsys.readouterr().out  # type: ignore[operator]


def test_modes_the_check_warns_of_are_not_recommended() -> None:
    """The review is asked of what is recommended, and a dearer mode takes its place."""
    edges = {"scale": "linear", "from": 0, "to": 9}
    table = {key: LOAD[key] for key in ("kind", "description", "owner", "expires")}
    table |= {"ask": "mean", "edges": edges}
    question = Question("planned", table, devices=100_000, epsilon=2.0)

    def review(file: MetricsFile, population: int) -> list[Finding]:
        fresh = all(metric.max_reports == 1 for metric in file.declared)
        return (
            [Finding("warning", "planned", "not so"), *reviewed(file, population)] if fresh else []
        )

    assert make_plan(question).metric.max_reports == 1
    other = make_plan(question, review=review)
    assert other.metric.max_reports is None
    assert "mode = 'once'" in other.because
    assert "`rappor metrics check` warns of it: not so" in other.because
    with pytest.raises(PlanError, match="warns of every plan: no"):
        make_plan(question, review=lambda *_: [Finding("warning", "", "no")])
