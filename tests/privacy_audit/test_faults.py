"""Every planted fault is found; a few of them, and an honest client, in the ordinary suite.

In the ordinary suite an honest client fails an audit once in ten million runs; in the long tests,
where only faults are audited, the rate is the usual one, once in 100.
"""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from scipy import stats

from privacy_audit.audit import AuditOptions, audit
from privacy_audit.report import DEFAULT_METRICS
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.file import parse_metrics
from tests.privacy_audit import faults
from tests.privacy_audit.fault_support import broken_claims, copy_client, plant, text_with
from tests.privacy_audit.test_audit_command import PROGRAM, ROOT, with_node

TRIALS, ALPHA = 4_000, 0.01
FEW_TRIALS, SMALL_ALPHA = 2_000, 1e-7
QUICK = "noise-from-a-seed-of-sixteen-bits"  # every other is found by its part in the long tests
BY_NAME = {fault.name: fault for fault in faults.FAULTS}
AUDITED = [name for name, fault in BY_NAME.items() if fault.part != faults.CLIENT]


def check_found(fault: faults.Fault, broken: list[str]) -> None:
    assert any(fault.seen_by in claim for claim in broken), broken


@pytest.mark.parametrize(
    "fault", [*faults.FAULTS, *faults.APP_FAULTS[-2:]], ids=lambda fault: fault.name
)
def test_a_fault_can_be_planted(fault: faults.Fault) -> None:
    """Two faults were of text that had moved, and no test of the ordinary suite said so."""
    text_with(fault)


def test_a_small_audit_finds_the_fault(tmp_path: Path) -> None:
    fault = BY_NAME[QUICK]
    command = plant(fault, tmp_path)
    found = broken_claims(command, fault.metrics, FEW_TRIALS, (fault.part,), SMALL_ALPHA)
    check_found(fault, found)


@pytest.mark.long
@pytest.mark.parametrize("name", AUDITED)
def test_every_fault_is_found_by_its_part(name: str, tmp_path: Path) -> None:
    fault = BY_NAME[name]
    command = plant(fault, tmp_path)
    check_found(fault, broken_claims(command, fault.metrics, TRIALS, (fault.part,), ALPHA))


@pytest.mark.long
@pytest.mark.parametrize(
    "fault", faults.APP_FAULTS, ids=[fault.name for fault in faults.APP_FAULTS]
)
def test_an_app_shows_the_fault(fault: faults.Fault, tmp_path: Path) -> None:
    command = plant(fault, tmp_path)  # a digest is hundreds of runs of bytes: p > .03 of 8 and 8
    devices = AuditOptions().apps if "bytes of the files" in fault.seen_by else faults.APP_DEVICES
    check_found(fault, broken_claims(command, fault.metrics, 0, ("app",), ALPHA, devices))


@pytest.mark.long
def test_an_app_with_an_honest_client_passes(tmp_path: Path) -> None:
    command = copy_client(tmp_path)
    assert broken_claims(command, faults.METRICS, 0, ("app",), SMALL_ALPHA, 2) == []


AUDITS = int(os.environ.get("RAPPOR_AUDITS", "9"))
HIGH_ALPHA = 0.2  # of each audit: the stated rate of false alarms of the whole of it
LEVELS = (0.05, 0.01)  # of single checks
FALSE_ALARMS = 1e-6  # of each of the three counts; of nine audits all must fail at HIGH_ALPHA: 5e-7
BOXES = ("encoder", "device", "derivations")


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", ["homepage", "theme", "crashed"])
def test_honest_clients_fail_as_seldom_as_said(name: str) -> None:
    """Fresh randomness in every audit; `RAPPOR_AUDITS=100` counts over more of them."""
    options = AuditOptions(trials=2_000, processes=2, parts=BOXES, alpha=HIGH_ALPHA)
    file, failed, values = load_metrics(DEFAULT_METRICS), 0, []
    for _ in range(AUDITS):
        found = audit(file, options, names=(name,))
        failed += bool(found.broken)
        values += [check.p_value for check in found.checks if check.method != "exact"]
    small = {level: sum(p <= level for p in values) for level in LEVELS}
    print(f"{name}: {failed} of {AUDITS} audits failed; of {len(values)} values of p, "
          + ", ".join(f"{count} are up to {level}" for level, count in small.items()))  # fmt: skip
    assert stats.binom.sf(failed - 1, AUDITS, HIGH_ALPHA) > FALSE_ALARMS
    for level, count in small.items():
        assert stats.binom.sf(count - 1, len(values), level) > FALSE_ALARMS


PLAIN = faults.METRICS.replace('no_data = "none"\n', "")
TWO = faults.TWO_STRINGS.replace('no_data = "none"\n', "")


class Planted(NamedTuple):
    """file: of `dist/core`.  old: occurs in it once.  part, seen_by: which check must see it."""

    name: str
    file: str
    old: str
    new: str
    part: str
    seen_by: str
    metrics: str = PLAIN


TYPESCRIPT_FAULTS = (
    Planted("noise-from-a-seed-of-sixteen-bits", "device.js",
            "this.randomness(this.second.numBytes)",
            "((n, [a, b]) => Uint8Array.from({ length: n }, (_, i) => "
            "(Math.imul(a * 256 + b + 1, 2654435761 ^ (i * 40503)) >>> 13) & 255))"
            "(this.second.numBytes, this.randomness(2))",
            "freshness", "equal only by chance"),
    Planted("permanent-response-of-the-opening", "device.js",
            'this.permanentInput = keyedInput(secret, "permanent", fields);',
            'this.permanentInput = keyedInput(secret, "permanent", [...fields, '
            "Uint8Array.of(performance.now() * 1000 & 255)]);",
            "device", "7 reports of a device share one permanent response"),
    Planted("cap-off-by-one", "ledger.js", "if (held + number > Math.min(",
            "if (held + number > 1 + Math.min(", "answers", "each report is the correct", TWO),
    Planted("fallback-in-place-of-a-value", "device.js", "    valueBits(value) {",
            "    valueBits(value) {\n        const { fallback } = this.metric.definition;"
            "\n        if (fallback && this.randomness(1)[0] < 13) value = fallback;",
            "answers", "each report is the correct"),
)  # fmt: skip
SOME_LONG = [
    pytest.param(
        fault, id=fault.name, marks=[] if fault is TYPESCRIPT_FAULTS[0] else [pytest.mark.long]
    )
    for fault in TYPESCRIPT_FAULTS
]  # the quickest is in the ordinary suite


def planted(fault: Planted | None, tree: Path) -> str:
    """The command of a copy of the built client, with a fault in it."""
    client = tree / "client_js"
    for part in ("bin", "dist"):
        shutil.copytree(ROOT / "client_js" / part, client / part)
    (client / "node_modules").symlink_to(ROOT / "client_js" / "node_modules")
    shutil.copy(ROOT / "client_js" / "package.json", client)
    if fault is not None:
        path = client / "dist" / "core" / fault.file
        text = path.read_text()
        assert text.count(fault.old) == 1, f"{fault.name}: {text.count(fault.old)} times"
        path.write_text(text.replace(fault.old, fault.new))
    return f"node {client / 'bin' / PROGRAM.name}"


def broken(command: str, part: str, metrics: str) -> list[str]:
    options = AuditOptions(trials=2_000, processes=1, parts=(part,), alpha=SMALL_ALPHA)
    return [check.what for check in audit(parse_metrics(metrics), options, command=command).broken]


@with_node
@pytest.mark.parametrize("fault", SOME_LONG)
def test_a_fault_of_the_typescript_client_is_found(fault: Planted, tmp_path: Path) -> None:
    found = broken(planted(fault, tmp_path), fault.part, fault.metrics)
    assert any(fault.seen_by in what for what in found), found


@with_node
@pytest.mark.parametrize("fault", SOME_LONG)
def test_the_typescript_client_itself_passes(fault: Planted, tmp_path: Path) -> None:
    assert broken(planted(None, tmp_path), fault.part, fault.metrics) == []
