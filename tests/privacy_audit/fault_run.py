"""Audit the client of the tree that stands first on the path, and print JSON.

python -m tests.privacy_audit.fault_run METRICS_FILE TRIALS INSTALLATIONS BOX[,BOX] ALPHA
"""

from __future__ import annotations

import json
import sys

from privacy_audit.audit import AuditOptions, audit
from privacy_audit.black_box.checks import Check
from rappor_core.metrics.metrics_file import load_metrics
from tests.client.exact_checks import exact_checks
from tests.client.whole.installations import installation_checks


def main(arguments: list[str]) -> None:
    """Check, and print what was broken."""
    trials, installations = map(int, arguments[1:3])
    file, boxes, alpha = load_metrics(arguments[0]), arguments[3].split(","), float(arguments[4])
    if boxes == ["installations"]:
        broken = _broken(list(installation_checks(file, 1, installations)), alpha)
    elif boxes == ["rounds"]:
        broken = _broken(list(exact_checks(list(file.declared))), alpha)
    else:
        options = AuditOptions(
            trials=trials, processes=0, boxes=tuple(boxes), alpha=alpha, apps=installations
        )
        broken = audit(file, options).broken
    print(json.dumps([f"{check.box}: {check.what}: {check.found}" for check in broken]))


def _broken(checks: list[Check], alpha: float) -> tuple[Check, ...]:
    level = alpha / max(1, sum(check.method == "test" for check in checks))
    return tuple(check for check in checks if check.broken(level))


if __name__ == "__main__":
    main(sys.argv[1:])
