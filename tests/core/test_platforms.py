"""`platforms` and `lives`: where a metric may run, and what a browser's deleted storage costs."""

import json
import math
from datetime import date
from pathlib import Path
from typing import Any

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
from rappor_core.metrics.kinds import KINDS as ALL_KINDS
from tests.client.location_support import DECLARED, MEMO
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
    """The compiled form, what each metric promises on a platform, and which client records it."""
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
def test_bad_documents_are_refused(row: dict[str, Any]) -> None:
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
def test_browser_needs_are_asked_for_by_name(keys: dict[str, str], said: str) -> None:
    with pytest.raises(MetricsFileError, match=f"metric 'answer': (add )?{said}( = |: )"):
        parse_metrics(changed(**keys))


def test_permanent_responses_need_a_bound_too() -> None:
    assert BOTH.params.mechanism.has_permanent_round
    with pytest.raises(MetricsFileError, match="max_reports"):
        BOTH.replace(max_reports=None)


def test_lives_multiply_on_the_web_alone() -> None:
    assert BOTH.lifetime_epsilon_on("app") == BOTH.lifetime_epsilon
    assert BOTH.lifetime_epsilon_on("web") == 6 * BOTH.lifetime_epsilon
    web = 6 * BOTH.lifetime_epsilon + 10 * WEB_ONLY.lifetime_epsilon
    app = BOTH.lifetime_epsilon + APP_ONLY.lifetime_epsilon
    assert math.isclose(FILE.lifetime_epsilon_on("web"), web)
    assert math.isclose(FILE.lifetime_epsilon_on("app"), app)
    assert FILE.lifetime_epsilon == max(web, app)


def test_the_budget_holds_over_all_lives() -> None:
    assert FILE.budget is not None
    short = TEXT.replace(f"budget = {FILE.budget}", f"budget = {FILE.lifetime_epsilon - 0.01:.3f}")
    with pytest.raises(MetricsFileError, match=r"lives = "):
        parse_metrics(short)


def test_check_says_what_lives_cost() -> None:
    findings = list(check_metrics(FILE, today=date(2027, 1, 1)))
    notes = {f.metric: f.message for f in findings if "each life of its storage" in f.message}
    assert notes.keys() == {"page", "answer"}
    assert f"{BOTH.lifetime_epsilon_on('web'):.3f} over the declared lives = 6" in notes["page"]
    warned = {f.metric: f.message for f in findings if "Safari" in f.message}
    assert warned.keys() == {"page"}  # 2027-01-01 to 2027-03-01 may be nine lives
    assert "may begin 9 until 2027-03-01" in warned["page"]


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
    web = DECLARED + MEMO + 'platforms = ["web"]\nlives = 2\nmax_reports = 4\n'
    file = parse_metrics(web)
    state = MemoryState(bytes(32))
    places = LocationRecorder(file, state, Recorder(file.metrics, state))
    assert fix(places, "density", 42.36, -72.54, None, NOON) == "elsewhere"
    places.save()
    assert state.note("places/density") is None
    assert state.take_reports() == []


NOISE = "epsilon_infinity = 2.0\nepsilon_one = 1.0\n"
CAPPED = 'max_memoized_values = 2\nfallback = "other"\n'
NUMBER = 'unit = "s"\nof_period = "sum"\nedges = [1, 2, 4]\nnone = "apart"\n'
PLACES = 'grid = "square"\nbox = [42.0, -73.0, 42.5, -72.0]\nlevels = [0]\nrows = 4\ncolumns = 4\n'
KINDS = {
    "string": f"num_bits = 16\nnum_hashes = 2\nnum_cohorts = 8\n{NOISE}{CAPPED}max_reports = 4\n",
    "category": f'categories = ["other", "a"]\n{NOISE}{CAPPED}max_reports = 4\n',
    "boolean": f"{NOISE}max_reports = 4\n",
    "location": f'{PLACES}mode = "once"\nencoding = "one_hot"\nepsilon = 2.0\n',
    "number": f'{NUMBER}mode = "memo"\n{NOISE}max_reports = 4\n',
    "number, once": f'{NUMBER}mode = "once"\nepsilon = 2.0\n',
    "flow": (
        'grid = "square"\nbox = [0, 0, 4, 4]\nrows = 2\ncolumns = 2\nlevels = [0, 1]\n'
        'from = "night 22-6"\nto = "work 9-17"\nbands_km = [120]\nmode = "once"\n'
        "epsilon = 2.0\nnum_symbols = 8\nnum_cohorts = 10\n"
    ),
    "discover": f"epsilon_infinity = 4.0\n{CAPPED}max_reports = 1\n",
    "pair": (
        'of = ["a", "b"]\nvalues.a = ["x", "y"]\nvalues.b = [false, true]\n'
        f'{NOISE}max_memoized_values = 2\nfallback = "x | true"\nmax_reports = 4\n'
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_where_it_runs(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the file over the compiled form to what `rappor metrics check` prints."""
    assert {name.partition(",")[0] for name in KINDS} == set(ALL_KINDS)
    text = (
        f'[metrics.one]\nkind = "{kind.partition(",")[0]}"\ndescription = "a test"\n'
        f'owner = "test@example.org"\nexpires = 2099-06-30\n{KINDS[kind]}'
        'platforms = ["app", "web"]\nlives = 7\n'
    )
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
    assert f"note: one: in a browser up to epsilon {one:.3f} in each life" in printed
    assert f"{all_lives:.3f} over the declared lives = 7" in printed
    assert f"(app {one:.3f}; web {all_lives:.3f}, over all lives" in printed
