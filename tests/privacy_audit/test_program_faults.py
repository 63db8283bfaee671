"""Faults planted in the built TypeScript client, found through `--command`."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from privacy_audit.audit import AuditOptions, audit
from rappor_core.metrics.file import parse_metrics
from tests.privacy_audit.faults import METRICS, TWO_STRINGS
from tests.privacy_audit.test_audit_command import PROGRAM, ROOT, needs_node

ALPHA = 1e-7
PLAIN = METRICS.replace('no_data = "none"\n', "")
TWO = TWO_STRINGS.replace('no_data = "none"\n', "")


class Planted(NamedTuple):
    """file: of `dist/core`.  old: occurs in it once.  part, seen_by: which check must see it."""

    name: str
    file: str
    old: str
    new: str
    part: str
    seen_by: str
    metrics: str = PLAIN


FAULTS = (
    Planted(
        "noise-from-a-seed-of-sixteen-bits", "device.js",
        "this.randomness(this.second.numBytes)",
        "((n, [a, b]) => Uint8Array.from({ length: n }, (_, i) => "
        "(Math.imul(a * 256 + b + 1, 2654435761 ^ (i * 40503)) >>> 13) & 255))"
        "(this.second.numBytes, this.randomness(2))",
        "freshness", "equal only by chance",
    ),
    Planted(
        "permanent-response-of-the-opening", "device.js",
        'this.permanentInput = keyedInput(secret, "permanent", fields);',
        'this.permanentInput = keyedInput(secret, "permanent", [...fields, '
        "Uint8Array.of(performance.now() * 1000 & 255)]);",
        "device", "7 reports of a device share one permanent response",
    ),
    Planted(
        "cap-off-by-one", "ledger.js",
        "if (held + number > Math.min(", "if (held + number > 1 + Math.min(",
        "answers", "each report is the answer", TWO,
    ),
    Planted(
        "fallback-in-place-of-a-value", "device.js",
        "    valueBits(value) {",
        "    valueBits(value) {\n        const { fallback } = this.metric.definition;"
        "\n        if (fallback && this.randomness(1)[0] < 13) value = fallback;",
        "answers", "each report is the answer",
    ),
)  # fmt: skip
SOME_LONG = [
    pytest.param(fault, id=fault.name, marks=[] if fault is FAULTS[0] else [pytest.mark.long])
    for fault in FAULTS
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
    options = AuditOptions(trials=2_000, processes=1, parts=(part,), alpha=ALPHA)
    return [check.what for check in audit(parse_metrics(metrics), options, command=command).broken]


@pytest.mark.skipif(bool(needs_node()), reason=needs_node() or "Node is there")
@pytest.mark.parametrize("fault", SOME_LONG)
def test_a_fault_of_the_typescript_client_is_found(fault: Planted, tmp_path: Path) -> None:
    found = broken(planted(fault, tmp_path), fault.part, fault.metrics)
    assert any(fault.seen_by in what for what in found), found


@pytest.mark.skipif(bool(needs_node()), reason=needs_node() or "Node is there")
@pytest.mark.parametrize("fault", SOME_LONG)
def test_the_typescript_client_itself_passes(fault: Planted, tmp_path: Path) -> None:
    assert broken(planted(None, tmp_path), fault.part, fault.metrics) == []
