"""Audit the client of the tree that stands first on the path, in its quick form; print JSON.

python -m tests.privacy_audit.fault_run METRICS_FILE [TRIALS [INSTALLATIONS]]
"""

from __future__ import annotations

import json
import sys

from privacy_audit.audit import AuditOptions, audit
from rappor_core.metrics.loading import load_metrics

QUICK = AuditOptions(trials=10_000, processes=0, installations=30)


def main(arguments: list[str]) -> None:
    """Audit, and print what was broken."""
    numbers = [int(word) for word in arguments[1:]]
    trials, installations = [*numbers, *(QUICK.trials, QUICK.installations)[len(numbers) :]]
    options = AuditOptions(trials=trials, processes=0, installations=installations)
    found = audit(load_metrics(arguments[0]), options)
    print(json.dumps([f"{check.box}: {check.what}: {check.found}" for check in found.broken]))


if __name__ == "__main__":
    main(sys.argv[1:])
