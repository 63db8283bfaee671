"""The paperwork of app stores for a metrics file: what is collected, in the terms of each store.

What does not follow from the declarations is listed as questions to the owner of the app.
"""

import math
import plistlib
from collections.abc import Sequence
from typing import NamedTuple

from rappor_core.grid.grid import Grid
from rappor_core.metrics.flow import EARTH_RADIUS, Flow
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.metrics.validation import APP
from rappor_core.risk import risk_of

PRECISE_DEGREES = 0.001  # Apple: a resolution of three or more decimal places is precise
PRECISE_KM2 = 3.0  # Google: an area below 3 square kilometers is precise
_APPLE = "NSPrivacyCollectedDataType"


class DataTypes(NamedTuple):
    """The type of data that each store has for a metric, as Apple's identifier and both names."""

    identifier: str
    apple: str
    google: str


USAGE = DataTypes("OtherUsageData", "Usage Data: Other Usage Data", "App activity: Other actions")


def data_types(metric: Metric) -> DataTypes:
    """Return the data types of a metric; for a location, they depend on its cells' size."""
    grid = metric.location.grid if metric.location else None
    if isinstance(metric.details, Flow):
        grid = metric.details.grid
    if grid is None:
        return USAGE
    degrees, area = cell_size(grid)
    apple = "Precise" if degrees <= PRECISE_DEGREES else "Coarse"
    google = "Precise" if area < PRECISE_KM2 else "Approximate"
    return DataTypes(
        f"{apple}Location", f"Location: {apple} Location", f"Location: {google} location"
    )


def cell_size(grid: Grid) -> tuple[float, float]:
    """Return the height in degrees and the area in km2 of a finest cell in the middle of a box."""
    box = grid.box
    middle = (box.south + box.north) / 2, (box.west + box.width / 2 + 180) % 360 - 180
    corners = grid.system.outline(grid.system.cell(*middle, grid.finest), grid.finest)
    south, north = min(lat for lat, _ in corners), max(lat for lat, _ in corners)
    width = max(lng for _, lng in corners) - min(lng for _, lng in corners)
    kilometers = math.radians(1) * EARTH_RADIUS / 1000
    area = (north - south) * width * kilometers**2 * math.cos(math.radians((south + north) / 2))
    return north - south, area


def privacy_manifest(metrics: Sequence[Metric]) -> bytes:
    """Return Apple's PrivacyInfo.xcprivacy for the metrics of an app."""
    collected = [
        {
            _APPLE: _APPLE + identifier,
            f"{_APPLE}Linked": False,
            f"{_APPLE}Tracking": False,
            f"{_APPLE}Purposes": [f"{_APPLE}PurposeAnalytics"],
        }
        for identifier in sorted({data_types(metric).identifier for metric in metrics})
    ]
    return plistlib.dumps(
        {
            "NSPrivacyTracking": False,
            "NSPrivacyTrackingDomains": [],
            "NSPrivacyCollectedDataTypes": collected,
            "NSPrivacyAccessedAPITypes": [],
        },
        sort_keys=False,
    )


def store_answers(metrics: Sequence[Metric]) -> str:
    """Return the answers for both stores, a paragraph for a privacy policy, and open questions."""
    types = {metric: data_types(metric) for metric in metrics}
    named = {row.apple: list[str]() for row in types.values()}
    for metric, row in types.items():
        named[row.apple].append(metric.base_name)
    apple = [f"| {a} | analytics | no | no | {', '.join(of)} |" for a, of in named.items()]
    google = [
        f"| {name} | yes | no | no | optional | analytics |"
        for name in dict.fromkeys(row.google for row in types.values())
    ]
    items = [
        f"- {metric.description.rstrip('.')} (until {metric.expires}). {risk_of(metric).sentence}"
        for metric in metrics
    ]
    usage = [metric.base_name for metric in metrics if types[metric] is USAGE]
    asked = [
        "Does the collector, or a server in front of it, store the addresses of senders? Then the "
        "data is linked to the device, and both tables change.",
        "Does anyone other than you and your contractors receive the data? Then it is shared.",
        "Is the collector reached over https? Then the data is encrypted in transit.",
        "Can a person ask you to delete data? A report cannot be found again by its sender; "
        "withdrawing consent deletes what has not been sent.",
        "Do other parts of the app collect data? Add their answers.",
    ]
    if usage:
        asked.insert(
            0,
            f"Which data do these metrics record: {', '.join(usage)}? A web address is browsing "
            "history, and a crash is crash data: name the type that each store has for it.",
        )
    return "\n".join([
        "# Answers for the stores", "", "## App Store privacy", "",
        "| data type | purpose | linked to identity | tracking | metrics |",
        "|---|---|---|---|---|", *apple, "", "## Google Play data safety", "",
        "| data type | collected | shared | ephemeral | required or optional | purpose |",
        "|---|---|---|---|---|---|", *google, "", "## For the privacy policy", "",
        "If you agree, the app reports the answers listed here. Each answer is randomized on your "
        "device before it is sent (local differential privacy), so that no report shows your "
        "answer for certain. A report has no name, account or device identifier. You can withdraw "
        "your consent in the app at any time.", "", *items, "",
        "## Questions that you must answer", "", *(f"- {line}" for line in asked), "",
    ])  # fmt: skip


def app_metrics(file: MetricsFile) -> list[Metric]:
    """Return the declared metrics that run in an app, by name."""
    return sorted((m for m in file.declared if APP in m.platforms), key=lambda m: m.name)
