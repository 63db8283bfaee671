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
from typer import BadParameter

from decoder.errors import PlanError
from metric_design.cohorts import reports_to_serve
from metric_design.kind_design import Question, kind_design
from metric_design.plan import make_plan, merged_sentence
from metric_design.search import reviewed, toml_table
from rappor_cli import plan as plan_command
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from tests.cli.command import Rappor, warned
from tests.metric_texts import declaration, word

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
    "category": ["--kind", "category", "--candidates", "5"],
    "string": ["--candidates", "200"],
}
HEAD = 'description = "d"\nowner = "o@example.org"\nexpires = 2090-01-01\n'


def planned(rappor: Rappor, *words: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(rappor("plan", "planned", *words, "--json"))
    return result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("devices", "epsilon"),
    [
        (8_000, 3.0),
        pytest.param(60_000, 2.0, marks=pytest.mark.long),
        pytest.param(2_000_000, 1.0, marks=pytest.mark.long),
    ],
)
def test_no_plan_of_any_kind_is_warned_of(kind, devices, epsilon, tmp_path, rappor) -> None:
    if (kind, devices) == ("flow", 8_000):
        return  # its ten cohorts have no crowd of so few
    words = [*KINDS[kind], "--devices", str(devices), "--epsilon", str(epsilon)]
    result = planned(rappor, *words)
    assert warned(result["metrics_toml"], devices, tmp_path, rappor) == []


@pytest.mark.long
def test_unreachable_errors_say_what_would_reach_them(rappor: Rappor) -> None:
    words = [*MEAN, "--error", "0.1", "--devices", "5000"]
    said = rappor.refused("plan", "planned", *words)
    assert "is not reached by any epsilon" in said
    found = re.search(r"([\d,]+) devices with epsilon 6", said)
    words[words.index("--devices") + 1] = found[1]
    assert planned(rappor, *words)["epsilon_life"] <= 6.01


def test_days_that_are_merged_are_said(rappor: Rappor) -> None:
    few = planned(rappor, *KINDS["maps"], "--devices", "60k", "--epsilon", "2")
    assert "days are served as one: 60,000 devices send 2,000 reports" in few["merged"]
    many = planned(rappor, *KINDS["map"], "--devices", "60k", "--epsilon", "2")
    assert many["merged"] is None


def test_check_and_plan_count_days_alike() -> None:
    text = declaration(
        "heat", "location", grid="quadkey", box=[42.0, -72.8, 42.5, -72.4], levels=[13],
        num_cohorts=64, num_bits=32, epsilon=1.0, mode="window", window=30, max_reports=3,
    )  # fmt: skip
    (metric,) = parse_metrics(text).declared
    needed, devices = reports_to_serve(metric), 4_000
    said = [one.message for one in reviewed(parse_metrics(text), devices)]
    (result,) = re.findall(r"days are served (\d+) at a time", " ".join(said))
    assert int(result) == pytest.approx(needed / (devices / 30), abs=1)  # a thirtieth a day
    planned = merged_sentence(metric, devices)
    assert int(planned.split()[0]) == pytest.approx(int(result), abs=1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kind", "pear", "--devices", "1M"], "kind = 'pear' is not planned; planned are string"),
        (["--kind", "number", "--set", "a=" + "[" * 9999], "is not KEY=VALUE as in metrics.toml"),
        ([*MEAN, "--set", "epsilon=1.0", "--epsilon", "1"], "epsilon = 1.0 is chosen by the plan"),
        ([*MEAN, "--devices", "1M"], "error and epsilon are missing for planned: give --epsilon"),
        ([*MEAN, "--epsilon", "1", "--values", "8"], "--values = 8 has no use for kind 'number'"),
        (
            ["--kind", "boolean", "--devices", "1M", "--epsilon", "6", "--values", "5"],
            "values = 5: a boolean has 2",
        ),
    ],
)
def test_errors_name_the_value(words: list[str], message: str, rappor: Rappor) -> None:
    assert message in rappor.refused("plan", "planned", *words)


@pytest.mark.parametrize(
    ("kind", "keys", "message"),
    [
        ("location", ("box = [42.0, -72.8, 42.5, -72.4]", "levels = 3"), "levels = 3"),
        ("flow", (BOX[1], "levels = [9]", "bands_km = 3"), "bands_km = 3 is not a list"),
        ("discover", ("num_levels = 'x'",), "num_levels = 'x' is not a whole"),
    ],
)
def test_bad_keys_are_refused_in_a_sentence(kind, keys, message, rappor) -> None:
    options = [word for key in keys for word in ("--set", key)]
    said = rappor.refused(
        "plan", "planned", "--kind", kind, *options, "--devices", "100k", "--epsilon", "3"
    )
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
    plan = make_plan(replace(load(**IN_A_BROWSER), devices=5e7, epsilon=3))
    file = parse_metrics(plan.file_text)  # refuses what its budget does not hold
    assert file.lifetime_epsilon == plan.epsilon == pytest.approx(3, rel=0.02)
    assert plan.left == pytest.approx(3 - plan.epsilon)
    assert "for life over 5 lives of a browser's storage" in plan.answer


def test_browsers_and_apps_have_a_budget_each() -> None:
    web = toml_table("other", LOAD | IN_A_BROWSER | {"lives": 2, "epsilon": 2.5})
    known = parse_metrics(f"budget = 6\n{web}")
    assert known.lifetime_epsilon == pytest.approx(5, abs=0.01)
    shared = make_plan(load(), known)  # all of 6 are left in an app
    assert shared.epsilon == pytest.approx(6, abs=0.02)
    assert shared.left == pytest.approx(0, abs=0.02)
    with pytest.raises(PlanError, match="others 5"):
        make_plan(load(), MetricsFile(known.metrics, 3))
    with pytest.raises(PlanError, match="'other' is already in the file"):
        make_plan(load("other"), known)


def test_a_plan_warns_of_no_day(rappor: Rappor) -> None:
    day = datetime.now(UTC).date() + timedelta(days=30)
    given = LOAD | IN_A_BROWSER | {"expires": day}
    keys = [line for line in toml_table("x", given).splitlines()[1:] if "kind" not in line]
    words = [word for key in keys for word in ("--set", key)]
    rappor("plan", "--kind", "number", *words, "--devices", "10M", "--epsilon", "20")
    assert "Safari" not in rappor.out


@pytest.mark.parametrize(
    ("kind", "keys", "result"),
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
def test_the_check_and_the_plan_have_one_prediction(kind, keys, result, tmp_path, rappor) -> None:
    text = f'budget = 9.0\n\n[metrics.one]\nkind = "{kind}"\n{HEAD}{keys}'
    file = tmp_path / "metrics.toml"
    file.write_text(text)
    precision = kind_design(kind).precision(parse_metrics(text).declared[0], 100_000)
    assert result(precision) in rappor(
        "metrics", "check", file, "--population", "100000", "--explain"
    )  # type: ignore[operator]


def test_files_json_and_the_check_of_the_table(tmp_path: Path, rappor: Rappor) -> None:
    words = ["plan", "theme", "--share", "2%", "--devices", "1,000,000",
             "--kind", "category", "--candidates", "8", "--json", "-o", str(tmp_path)]  # fmt: skip
    result = json.loads(rappor(*words))
    assert result["solved_for"] == "epsilon"
    assert result == json.loads((tmp_path / "plan.json").read_text())
    assert "Approval" in (tmp_path / "plan.html").read_text()
    assert load_metrics(tmp_path / "metrics.toml").metrics["theme"].kind == "category"
    rappor("metrics", "check", tmp_path / "metrics.toml")


WRITTEN = {"1,000,000": 1e6, "1 000 000": 1e6, "12,345.5": 12_345.5, "1,200 k": 1.2e6, "2 %": 0.02}


@pytest.mark.parametrize(("text", "value"), WRITTEN.items())
def test_numbers_as_people_write_them(text: str, value: float) -> None:
    assert plan_command.number(text) == value


@pytest.mark.parametrize(
    "text",
    ["0,5%", "1,5M", "1,00,000", ",5", "1,0000", "5 M M", "0,001", "0,125%", "1.234,567",
     "1000,000", "1,000,0000", "0 500"],
)  # fmt: skip
def test_a_decimal_comma_is_no_thousands_separator(text: str) -> None:
    with pytest.raises(BadParameter, match="is not a number"):
        plan_command.number(text)


@pytest.mark.long
def test_epsilons_that_protect_nobody_are_told(tmp_path: Path, rappor: Rappor) -> None:
    words = ["plan", "rare", "--share", "0.1%", "--devices", "1M", "--mode", "memo"]
    text = rappor(*words, "-o", tmp_path)
    assert (
        "per lifetime offers almost no protection. With --epsilon 6 the same devices let you see"
        in text
    )
    assert "offers almost no protection" in (tmp_path / "plan.html").read_text()
    assert "offers almost no protection" in json.loads((tmp_path / "plan.json").read_text())["weak"]


def test_it_asks_on_a_terminal(monkeypatch: pytest.MonkeyPatch, rappor: Rappor) -> None:
    answers = iter(["", "1M", "6", "20", ""])
    monkeypatch.setattr(plan_command.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(plan_command.typer, "prompt", lambda *_, **__: next(answers))
    assert "you will see the" in rappor("plan")


@pytest.mark.long
def test_plan_files_pass_and_keep_old_metrics(tmp_path: Path, rappor: Rappor) -> None:
    words = ["--devices", "20k", "--epsilon", "4", "--candidates", "20"]
    rappor("plan", "page", *words, "-o", tmp_path / "one")
    first = tmp_path / "one" / "metrics.toml"
    assert warned(first.read_text(), 20_000, tmp_path, rappor) == []
    first.write_text(first.read_text().replace("budget = 4", "budget = 9"))
    more = [*words, "--metrics", str(first), "-o", str(tmp_path / "two")]
    rappor("plan", "theme", *more)
    second = tmp_path / "two" / "metrics.toml"
    assert first.read_text().rstrip() in second.read_text()
    assert warned(second.read_text(), 20_000, tmp_path, rappor) == []


@pytest.mark.parametrize("wrong", ["0", "1.5", "nan", "inf", "2e12", "many"])
def test_populations_are_whole_numbers(wrong: str, tmp_path: Path, rappor: Rappor) -> None:
    file = tmp_path / "metrics.toml"
    file.write_text(word("homepage"))
    said = rappor.refused("metrics", "check", file, "--population", wrong, code=2)
    assert f"'{wrong}' is not a" in said
