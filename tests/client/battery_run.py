"""Run a battery over the client of the tree that is first on the path, and print what it finds.

python -m tests.client.battery_run METRICS_FILE INSTALLATIONS BATTERY ALPHA
"""

from __future__ import annotations

import json
import sys

from rappor_core.metrics.compiled import load_metrics
from tests.client.exact_checks import exact_checks
from tests.client.whole.installations import installation_checks


def main(arguments: list[str]) -> None:
    """Check, and print what was broken as JSON."""
    file, alpha = load_metrics(arguments[0]), float(arguments[3])
    if arguments[2] == "installations":
        checks = list(installation_checks(file, 1, int(arguments[1])))
    else:
        checks = list(exact_checks(list(file.declared)))
    level = alpha / max(1, sum(check.method == "test" for check in checks))
    print(json.dumps([f"{c.part}: {c.what}: {c.found}" for c in checks if c.broken(level)]))


if __name__ == "__main__":
    main(sys.argv[1:])
