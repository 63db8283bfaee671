"""`rappor audit`: verdict, files, exit codes, and another client behind a command.

An honest client fails an audit at `ALPHA` in 1e-7 of runs by the union bound. Normal p-values of
products of rare bits make it 6e-6 for `late` and 1e-6 at most for the others, by saddlepoint tails.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from privacy_audit.audit import PARTS, AuditOptions, audit
from privacy_audit.black_box import program_client, watched_app
from privacy_audit.black_box.program_client import Program
from privacy_audit.errors import AuditError
from privacy_audit.report import DEFAULT_METRICS, consequence, identity, page, to_dict
from rappor_cli.main import main
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.file import parse_metrics
from rappor_core.risk import risk_of
from tests.metric_texts import declaration
from tests.privacy_audit.fault_support import plant
from tests.privacy_audit.faults import FAULTS, METRICS, PLACES

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "client_js" / "bin" / "rappor-client-vectors.mjs"
BUILT = ROOT / "client_js" / "dist" / "core" / "device.js"
QUICK = AuditOptions(trials=4_000, processes=2, apps=0)
BY_NAME = {fault.name: fault for fault in FAULTS}
ALPHA = 1e-7  # of each audit of an honest client; planted faults are found at it in test_faults.py


@pytest.mark.long
def test_the_command_writes_what_it_found(tmp_path, capsys) -> None:
    """One quick audit of one bit, at the least rate of false alarms that the command takes."""
    found, html = tmp_path / "audit.json", tmp_path / "audit.html"
    words = ["audit", "--metric", "crashed", "--trials", "4000", "--alpha", "1e-6"]
    assert main([*words, "--json", str(found), "-o", str(html), "--processes", "1"]) == 0
    reply = json.loads(found.read_text())
    assert reply["held"]
    assert [metric["name"] for metric in reply["metrics"]] == ["crashed"]
    assert {check["part"] for check in reply["checks"]} == set(PARTS) - {"freshness"}
    text = html.read_text()
    assert "No claim was broken" in text
    assert "http" not in text
    assert "none broken" in capsys.readouterr().out


def test_what_has_run_is_kept_on_ctrl_c(tmp_path, monkeypatch, capsys) -> None:
    """A stopped audit wrote nothing, whatever it had found in the hours before."""
    lines: list[str] = []

    @contextmanager
    def stopping() -> Iterator[Callable[[str, float, float], None]]:
        def show(stage: str, done: float, total: float) -> None:
            lines.extend(capsys.readouterr().err.splitlines())
            if lines:
                raise KeyboardInterrupt

        yield show

    monkeypatch.setattr("rappor_cli.audit.stage_bars", stopping)
    found, html = tmp_path / "audit.json", tmp_path / "audit.html"
    words = ["audit", "--metric", "crashed", "--trials", "2000", "--processes", "1"]
    assert main([*words, "--json", str(found), "-o", str(html)]) == 130
    (line,) = lines
    assert re.match(r"crashed: disjoint values, 1 report: 2,000 devices, \d\d\.\d% of g", line)
    reply = json.loads(found.read_text())
    assert reply["stopped"]
    assert {check["part"] for check in reply["checks"]} == {"encoder"}
    assert sum(check["method"] == "attack" for check in reply["checks"]) == 2
    note = "not run, or not with all devices: crashed: disjoint values, 30 reports; crashed: "
    assert note in reply["notes"][-1]
    assert "stopped before its end" in html.read_text()
    assert "stopped by Ctrl-C" in capsys.readouterr().out


def test_programs_end_with_a_stopped_audit() -> None:
    with Program(SILENT) as program:
        program_client.end_programs()
        assert program._process.wait(10) < 0


def test_an_undeclared_metric_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--metric", "nothing"]) == 1
    assert "'nothing' is not declared" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--json", "-o"])
def test_an_unwritable_file_is_refused_before_attacks(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rappor_cli.audit.run_audit", lambda *_, **__: pytest.fail("attacked"))
    assert main(["audit", option, str(tmp_path / "missing" / "page")]) == 1
    assert "missing/page' cannot be written" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [metric.base_name for metric in load_metrics(DEFAULT_METRICS).declared]
)
def test_honest_clients_pass_with_each_kind(name: str) -> None:
    options = AuditOptions(trials=2_000, processes=2, apps=0, alpha=ALPHA)
    result = audit(load_metrics(DEFAULT_METRICS), options, names=(name,))
    assert result.broken == ()
    assert {check.method for check in result.checks} == {"attack", "test", "exact"}
    assert all(consequence(check) for check in result.checks)
    level = result.level
    assert all(bool(c.finds(level)) == (c.verdict(level) == "held") for c in result.checks)
    assert f"{len(result.untested)} not tested" in result.verdict or not result.untested


FAILING = BY_NAME["raises-now-and-then"]


@pytest.mark.long
def test_an_exception_in_the_client_breaks_a_claim(tmp_path: Path) -> None:
    """In each part of the audit, with its message. (`Client` itself lets no exception out.)"""
    always = FAILING._replace(new="raise OSError('no randomness')")
    parts = ("encoder", "device", "derivations")
    options = AuditOptions(trials=2_000, parts=parts)
    result = audit(
        load_metrics(DEFAULT_METRICS), options, names=("crashed",), command=plant(always, tmp_path)
    )
    reply = {check.part: check for check in result.broken if "without an error" in check.what}
    assert set(reply) == set(parts)
    for check in reply.values():
        assert '"error": "OSError", "message": "no randomness (metric_encoder.py' in check.found
    assert "no randomness" in page(result, date(2026, 1, 1), identity(None))


@pytest.mark.long
def test_a_broken_claim_is_told_in_all_forms(tmp_path: Path) -> None:
    """The second round left out: seen by chances, and by the attacks."""
    command = plant(BY_NAME["no-fresh-noise"], tmp_path)
    result = audit(parse_metrics(METRICS), QUICK, command=command)
    names = {check.what for check in result.broken}
    assert "the second round has the declared probabilities" in names
    assert "disjoint values, 1 report" in names
    reply = to_dict(result, date(2026, 1, 1), identity(None))
    assert not reply["held"]
    text = page(result, date(2026, 1, 1), identity(None))
    assert "claims are broken" in text


TRIPS = PLACES + "pairs = true\n"


def test_a_metric_without_attacks_is_told(tmp_path, capsys) -> None:
    file = parse_metrics(TRIPS + METRICS.replace("values = 4", "values = 99"))
    options = AuditOptions(trials=500, processes=1, parts=("freshness",), alpha=ALPHA)
    result = audit(file, options)
    assert [metric.name for metric in result.metrics] == ["homepage"]
    reply = (
        "place: not audited: there are no attacks on trips",
        "homepage: values past the cap were not tried: a list, a cap or max_reports keeps them "
        "away",
    )
    assert set(reply) <= set(result.notes)
    text = page(result, date(2026, 1, 1), identity(None))
    assert "Not tested" in text
    (metric,) = result.metrics
    assert risk_of(metric).sentence in text  # rounded up
    path = tmp_path / "metrics.toml"
    path.write_text(TRIPS)
    assert main(["audit", str(path)]) == 1
    assert "no metric can be audited: place" in capsys.readouterr().err


def test_a_program_that_fails_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", "--metric", "crashed", "--trials", "2000", "--processes", "1"]
    assert main([*words, "--command", "/nowhere/at/all"]) == 1
    assert "cannot be started" in capsys.readouterr().err
    with pytest.raises(AuditError, match="ended before it answered 'metrics'"):
        audit(parse_metrics(METRICS), QUICK, command=f"{sys.executable} -c pass")


SILENT = f"{sys.executable} -c 'import time; time.sleep(60)'"


def test_a_silent_program_ends_the_audit(monkeypatch, capsys) -> None:
    monkeypatch.setattr(program_client, "ANSWER_SECONDS", 0.5)
    words = ["audit", "--metric", "crashed", "--trials", "2000", "--processes", "1"]
    assert main([*words, "--command", SILENT]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "time.sleep(60)" in said
    assert "has not answered 'metrics' for 0.5 seconds" in said
    assert "write one line for each command and flush it" in said


def test_a_silent_app_ends_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_app, "ANSWER_SECONDS", 0.25)
    monkeypatch.setattr(watched_app, "SECONDS", 0.25)
    options = AuditOptions(trials=2_000, processes=1, parts=("app",), apps=1)
    with pytest.raises(AuditError, match="has not answered 'open' for 0"):
        audit(parse_metrics(METRICS), options, app=SILENT)


def test_what_a_program_says_without_json_is_named() -> None:
    command = f"{sys.executable} -c \"input(); print('hello', flush=True)\""
    with Program(command) as program, pytest.raises(AuditError, match="not a JSON object: 'hello"):
        program.ask([{"do": "encode"}])


def needs_node() -> str:
    """Why the TypeScript client cannot be audited here, or ""."""
    if shutil.which("node") is None:
        return "Node is not installed"
    return "" if BUILT.exists() else "client_js is not built: npm ci && npm run build"


with_node = pytest.mark.skipif(bool(needs_node()), reason=needs_node() or "Node is there")


@pytest.mark.long
@with_node
def test_the_typescript_client_keeps_its_promises() -> None:
    options = AuditOptions(trials=4_000, processes=2, apps=0, alpha=ALPHA)
    result = audit(parse_metrics(METRICS), options, command=f"node {PROGRAM}")
    assert result.broken == ()
    names = {check.what for check in result.checks}
    assert "values past the cap, 7 reports" in names
    assert "permanent responses of two metrics are independent" in names
    assert any("silent periods" in note for note in result.notes)


BOOLEAN = {"epsilon_infinity": 3.0, "epsilon_one": 2.0}
KINDS = (
    declaration(
        "memory", "number", unit="MB", of_period="mean", ask="mean", none="apart", mode="memo",
        edges={"scale": "linear", "from": 0, "to": 2000}, epsilon_infinity=2.0, epsilon_one=1.8,
    )
    + declaration(
        "theme_slow", "pair", of=["theme", "slow"], max_memoized_values=4, **BOOLEAN,
        values={"theme": ["light", "dark"], "slow": [False, True]},
    )
    + declaration(
        "site", "discover", epsilon_infinity=4.0, max_reports=1, max_memoized_values=2,
        fallback="other",
    )
    + declaration("light", "boolean", **BOOLEAN)
    + declaration("late", "boolean", **BOOLEAN)
)  # fmt: skip


@pytest.mark.long
@with_node
@pytest.mark.parametrize("name", ["theme_slow", "late", "memory", "site"])
def test_every_typescript_kind_keeps_its_promises(name: str) -> None:
    boxes = ("encoder", "device", "derivations")
    options = AuditOptions(trials=4_000, processes=2, parts=boxes, alpha=ALPHA)
    file = parse_metrics(KINDS)
    result = audit(file, options, names=(name,), command=f"node {PROGRAM}")
    assert result.broken == ()
    alone = "memory: only its encoder was audited"  # the protocol has no command for the rest
    assert any(note.startswith(alone) for note in result.notes) == (name == "memory")
    assert "disjoint values, 1 report" in {check.what for check in result.checks}
