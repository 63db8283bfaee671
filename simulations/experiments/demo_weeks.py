"""The data for the demo's decoder service: two weeks of reports, and four weeks of usual places."""

from collections.abc import Iterator
from datetime import date, timedelta

import numpy as np

from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.calendar import date_of, day_of, last_day, period_number
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from simulations.populations.draws import declared_aggregate, draw_aggregate
from simulations.populations.fleet import RecordedValue

METRICS = """\
# Made by `rappor demo`.
budget = 9.6

[metrics.start_page]
kind = "string"
description = "The page that a browser opens with"
owner = "demo@example.org"
expires = {expires}
num_bits = 64
num_hashes = 2
num_cohorts = 32
epsilon_infinity = 1.6
epsilon_one = 1.2
max_memoized_values = 2
fallback = "other"
accept_days = {accept_days}

[metrics.theme]
kind = "category"
description = "The colors that an app is shown in"
owner = "demo@example.org"
expires = {expires}
categories = ["light", "dark", "high contrast"]
epsilon_infinity = 1.6
epsilon_one = 1.2
max_memoized_values = 2
fallback = "light"
accept_days = {accept_days}

[metrics.usual_place]
kind = "location"
description = "Where a device usually is, at night and by day"
owner = "demo@example.org"
expires = {expires}
grid = "square"
box = [40.55, -74.15, 40.95, -73.70]
rows = 20
columns = 20
levels = [0]
slots = ["night 22-6", "day 6-22"]
period = "week"
mode = "window"
window = 12
turn = "fresh"
hold = 4
max_reports = 2
accept_days = {place_days}
num_bits = 32
num_cohorts = 64
epsilon = 1.6
"""
PAGES = ("news", "mail", "search", "video", "school", "bank", "maps", "chat", "shop", "weather")
OPENED = [f"https://{page}.example/" for page in PAGES]
THEMES = ("light", "dark", "high contrast")
DAYS = 14
WEEKS = 4
DAILY = 16_000  # Devices that report their start page; other devices report the next day
THEMES_DAILY = 3_000
WEEKLY = 12_000  # Answers per slot; `DRAWN` for pictures, which are drawn without devices
DRAWN = 60_000
PLACES = 2 * WEEKS * WEEKLY  # All answers


def metrics_text(today: date) -> str:
    """Return the declarations of the demo's metrics as the text of a metrics.toml."""
    days = {"accept_days": DAYS + 1, "place_days": 7 * (WEEKS + 1)}
    return METRICS.format(expires=today + timedelta(days=365), **days)


def candidates() -> list[str]:
    """Return the pages on the demo's candidate list, some of which no one opens."""
    return [f"https://{page}{number}.example/" for page in PAGES for number in ("", *range(1, 40))]


def page_days(today: date, rng: np.random.Generator) -> Iterator[Aggregate]:
    """Yield the counts of the start page for each day, oldest first, drawn without devices."""
    metric = parse_metrics(metrics_text(today)).metrics["start_page"]
    for number in range(DAYS):
        day = today - timedelta(days=DAYS - number)
        one, _ = draw_aggregate(OPENED, _page_shares(number), DAILY, metric.params, rng)
        yield declared_aggregate(one, metric, day, day)


def day_readings(number: int, rng: np.random.Generator) -> Iterator[RecordedValue]:
    """Yield the values that devices record on one day, one value per device.

    `number` is the day, from 0. "video" rises in the second week, and the dark theme every day."""
    dark = 0.3 + 0.02 * number
    drawn = {
        "start_page": rng.choice(OPENED, DAILY, p=_page_shares(number)),
        "theme": rng.choice(THEMES, THEMES_DAILY, p=[0.94 - dark, dark, 0.06]),
    }
    for metric, values in drawn.items():
        for device, value in enumerate(values):
            yield RecordedValue(f"{metric}-{number}-{device}", metric, str(value))


def _page_shares(number: int) -> Floats:
    weights = 1 / np.arange(1, len(PAGES) + 1)
    weights[PAGES.index("video")] *= 1 + 3 * (number >= DAYS // 2)
    return np.asarray(weights / weights.sum())


def place_weeks(today: date, rng: np.random.Generator) -> Iterator[Aggregate]:
    """Yield the counts of the usual place for each week and slot, drawn without devices."""
    for metric, last, values, shares in _places(today):
        one, _ = draw_aggregate(values, shares, DRAWN, metric.params, rng)
        yield declared_aggregate(one, metric, last, last)


def place_readings(
    today: date, rng: np.random.Generator
) -> Iterator[tuple[Metric, date, list[RecordedValue]]]:
    """Yield, per slot and week, the slot's sub-metric, the last day, and the devices' answers."""
    for metric, last, values, shares in _places(today):
        drawn = enumerate(rng.choice(values, WEEKLY, p=shares))
        yield metric, last, [RecordedValue(str(n), metric.name, str(value)) for n, value in drawn]


def _places(today: date) -> Iterator[tuple[Metric, date, list[str], Floats]]:
    """Yield, per slot and week, the slot's sub-metric, the last day, cells, and their shares."""
    for metric in parse_metrics(metrics_text(today)).parts("usual_place"):
        if (location := metric.location) is None:
            continue
        values = list(location.domain_with())
        center = (8, 9) if location.slot == "night" else (11, 7)
        for number in range(WEEKS):
            period = period_number(metric.period, day_of(today)) - WEEKS + number
            weights = np.array([_busy(value, center, number) for value in values])
            last = date_of(last_day(metric.period, period))
            yield metric, last, values, weights / weights.sum()


def _busy(value: str, center: tuple[int, int], week: int) -> float:
    parts = value.split("-")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return 3.0
    row, column = int(parts[1]), int(parts[2])
    town = np.exp(-((row - center[0]) ** 2 + (column - center[1] - week) ** 2) / 12)
    suburb = 0.4 * np.exp(-((row - 15) ** 2 + (column - 14) ** 2) / 6)
    return float(town + suburb + 0.01)
