"""Audit the client of the tree that stands first on the path, and print JSON.

python -m tests.privacy_audit.fault_run METRICS_FILE TRIALS INSTALLATIONS BOX[,BOX] ALPHA
"""

from __future__ import annotations

import json
import sys

from privacy_audit.audit import AuditOptions, audit
from rappor_core.metrics.loading import load_metrics


def main(arguments: list[str]) -> None:
    """Audit, and print what was broken."""
    trials, installations = map(int, arguments[1:3])
    options = AuditOptions(
        trials=trials,
        processes=0,
        installations=installations,
        boxes=tuple(arguments[3].split(",")),
        alpha=float(arguments[4]),
    )
    found = audit(load_metrics(arguments[0]), options)
    print(json.dumps([f"{check.box}: {check.what}: {check.found}" for check in found.broken]))


if __name__ == "__main__":
    main(sys.argv[1:])
