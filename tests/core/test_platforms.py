"""`platforms` and `lives`: where a metric may run, and what a browser's deleted storage costs."""

import json
from datetime import date
from pathlib import Path

import pytest

from client_sdk.location.recorder import LocationRecorder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from collector.domain.metric_changes import _weaker
from metric_design.review import check_metrics
from rappor_cli.main import main
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import compiled, compiled_text, read_compiled
from rappor_core.metrics.file import parse_metrics
from tests.client.location_support import declared
from tests.kinds.worlds import DECLARED
from tests.places_support import fix

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "platforms.json").read_text())
TEXT = VECTORS["metrics.toml"]
FILE = parse_metrics(TEXT)
BOTH, WEB_ONLY, APP_ONLY = (FILE.metrics[name] for name in ("page", "answer", "disk"))
NOON = 12 * 3600.0


def changed(**keys: str | None) -> str:
    """The web-only metric with keys set, or (None) taken out."""
    head, _, rest = TEXT.partition("[metrics.answer]")
    body, _, tail = rest.partition("[metrics.disk]")
    lines = [line for line in body.splitlines() if line.partition(" = ")[0] not in keys]
    lines += [f"{key} = {value}" for key, value in keys.items() if value is not None]
    return f"{head}[metrics.answer]\n" + "\n".join(lines) + f"\n\n[metrics.disk]{tail}"


def test_the_vectors_are_current() -> None:
    assert json.loads(json.dumps(compiled(FILE))) == VECTORS["document"]
    assert VECTORS["budget_needed"] == {on: FILE.lifetime_epsilon_on(on) for on in ("app", "web")}
    assert VECTORS["promises"] == {
        one.name: {
            "lifetime_epsilon": {on: one.lifetime_epsilon_on(on) for on in one.platforms},
            "recorded": {on: on in one.platforms for on in ("app", "web")},
        }
        for one in FILE.metrics.values()
    }


@pytest.mark.parametrize("row", VECTORS["bad"], ids=lambda row: row["name"])
def test_bad_documents_are_refused(row) -> None:
    with pytest.raises(MetricsFileError):
        read_compiled(json.dumps(row["document"]))


def test_the_default_app_keeps_the_compiled_form() -> None:
    assert APP_ONLY.platforms == ("app",)
    assert not {"platforms", "lives"} & APP_ONLY.to_dict().keys()
    assert read_compiled(compiled_text(FILE)) == FILE


def test_a_platform_changes_no_reports_meaning() -> None:
    assert BOTH.replace(platforms=("app",), lives=None).params_id == BOTH.params_id


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"lives": None}, "lives"),
        ({"platforms": "[1]"}, "platforms"),
        ({"max_reports": None}, "max_reports"),
    ],
)
def test_browser_needs_are_asked_for_by_name(keys, said) -> None:
    with pytest.raises(MetricsFileError, match=f"metric 'answer': (add )?{said}( = |: )"):
        parse_metrics(changed(**keys))


def test_the_budget_holds_over_all_lives() -> None:
    short = TEXT.replace(f"budget = {FILE.budget}", f"budget = {FILE.lifetime_epsilon - 0.01:.3f}")
    with pytest.raises(MetricsFileError, match=r"lives = "):
        parse_metrics(short)


def test_check_says_what_lives_cost() -> None:
    findings = list(check_metrics(FILE, today=date(2027, 1, 1)))
    notes = {f.metric: f.message for f in findings if "per lifetime of its storage" in f.message}
    assert notes.keys() == {"page", "answer"}
    assert f"{BOTH.lifetime_epsilon_on('web'):.3f} over the declared lives = 6" in notes["page"]
    warned = {f.metric: f.message for f in findings if "Safari" in f.message}
    assert warned.keys() == {"page"}  # 2027-01-01 to 2027-03-01 may be nine lives
    assert "so 9 lifetimes are possible until 2027-03-01" in warned["page"]


def test_added_lives_or_browsers_weaken_the_collector() -> None:
    app_only = BOTH.replace(platforms=("app",), lives=None)
    assert any("epsilon for life" in what for what in _weaker(BOTH, app_only))
    assert any("epsilon for life" in what for what in _weaker(BOTH.replace(lives=7), BOTH))
    assert not list(_weaker(app_only, BOTH))


def test_this_client_refuses_browser_metrics() -> None:
    state = MemoryState(bytes(32))
    recorder = Recorder(FILE.metrics, state, budget=FILE.budget)
    assert [recorder.record(m.name, "yes", NOON) for m in (WEB_ONLY, BOTH, APP_ONLY)] == [
        "elsewhere", "queued", "queued",
    ]  # fmt: skip
    assert [line.name for line in state.lines()] == ["disk", "page"]
    web = Recorder(FILE.metrics, MemoryState(bytes(32)), platform="web")
    assert [web.record(m.name, "yes", NOON) for m in (WEB_ONLY, BOTH, APP_ONLY)] == [
        "queued", "queued", "elsewhere",
    ]  # fmt: skip


def test_no_fix_is_kept_for_browsers_alone() -> None:
    file = declared("memo", 'platforms = ["web"]\nlives = 2\nmax_reports = 4\n')
    state = MemoryState(bytes(32))
    places = LocationRecorder(file, state, Recorder(file.metrics, state))
    assert fix(places, "density", 42.36, -72.54, None, NOON) == "elsewhere"
    places.save()
    assert state.note("places/density") is None
    assert state.take_reports() == []


@pytest.mark.parametrize("kind", DECLARED)
def test_every_kind_says_where_it_runs(kind, tmp_path, capsys) -> None:
    bounded = "" if kind in ("discover", "flow") else "max_reports = 4\n"
    text = f'{DECLARED[kind]}{bounded}platforms = ["app", "web"]\nlives = 7\n'
    file = parse_metrics(text)
    (metric,) = file.declared
    assert (metric.platforms, metric.lives) == (("app", "web"), 7)
    assert read_compiled(compiled_text(file)) == file
    assert metric.lifetime_epsilon_on("web") == 7 * metric.lifetime_epsilon
    path = tmp_path / "metrics.toml"
    path.write_text(text)
    assert main(["metrics", "check", str(path), "--explain"]) == 0
    printed = capsys.readouterr().out
    one, all_lives = metric.lifetime_epsilon, 7 * metric.lifetime_epsilon
    named = f"note: {metric.base_name}: in a browser up to epsilon {one:.3f} per lifetime"
    assert named in printed
    assert f"{all_lives:.3f} over the declared lives = 7" in printed
    assert f"(app {one:.3f}; web {all_lives:.3f}, over all lives" in printed
