"""Over many audits of an honest client, claims are called broken no more often than is said."""

import os

import pytest
from scipy import stats

from privacy_audit.audit import AuditOptions, audit
from privacy_audit.report import DEFAULT_METRICS
from rappor_core.metrics.compiled import load_metrics

AUDITS = int(os.environ.get("RAPPOR_AUDITS", "9"))
ALPHA = 0.2  # of each audit: the stated rate of false alarms of the whole of it
LEVELS = (0.05, 0.01)  # of single checks
FALSE_ALARMS = 1e-6  # of each of the three counts; of nine audits all must fail at ALPHA: 5e-7
PARTS = ("encoder", "device", "derivations")


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", ["homepage", "theme", "crashed"])
def test_honest_clients_fail_as_seldom_as_said(name: str) -> None:
    """Fresh randomness in every audit; `RAPPOR_AUDITS=100` counts over more of them."""
    options = AuditOptions(trials=2_000, processes=2, parts=PARTS, alpha=ALPHA)
    file, failed, values = load_metrics(DEFAULT_METRICS), 0, []
    for _ in range(AUDITS):
        found = audit(file, options, names=(name,))
        failed += bool(found.broken)
        values += [check.p_value for check in found.checks if check.method != "exact"]
    small = {level: sum(p <= level for p in values) for level in LEVELS}
    print(f"{name}: {failed} of {AUDITS} audits failed at {ALPHA}; of {len(values)} values of p, "
          + ", ".join(f"{count} are up to {level}" for level, count in small.items()))  # fmt: skip
    assert stats.binom.sf(failed - 1, AUDITS, ALPHA) > FALSE_ALARMS
    for level, count in small.items():
        assert stats.binom.sf(count - 1, len(values), level) > FALSE_ALARMS
