"""Compare a device's answers with those that its metric's declaration demands, given its values
and history.

Devices draw values, silences and places by lot, over some periods. Each life is lived twice. With
next to no noise a report is its answer: each must be the one that the declaration asks for, and
none may be missing or too many. With the declared noise the bits of each kind of answer (a value,
the fallback, `other`, no data) have the declared chances.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

from decoder.grid_cells import cell_centre
from privacy_audit.black_box import bounds
from privacy_audit.black_box.asked_places import asked_of_fixes
from privacy_audit.black_box.checks import Check, exact, test
from privacy_audit.black_box.expected_answers import ExpectedReport, expected
from privacy_audit.black_box.flow_scenarios import periods_of
from privacy_audit.black_box.lives import (
    NOTHING,
    AuditedClient,
    Event,
    SeenReport,
    Step,
    Value,
    WholeLife,
)
from privacy_audit.black_box.noise_sums import chances
from privacy_audit.black_box.number_scenarios import MOST_RECORDED
from privacy_audit.black_box.power import one_of, shifted
from privacy_audit.black_box.scenario import start_days
from privacy_audit.black_box.scenarios import values_of
from privacy_audit.black_box.shown_metrics import (
    bits_of,
    chance_of_another,
    exchanged,
    looks_another,
    nearly_clear,
)
from privacy_audit.black_box.trials import ClientSource
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

BOX: Final = "answers"
PERIODS = 9
DIFFERENT = 6  # values that devices draw from
SILENT = 0.25  # of periods: the app is opened and records nothing
SHUT = 0.1  # of periods: it is not opened
ODD_VALUES = ("", "x" * 400, "\u96ea \u2603")


class Lived(NamedTuple):
    """Counts of reports of devices that drew their values by lot, beside what they had to send.

    another, missing, extra: numbers of reports.  total: expected.  kinds: by kind of answer the
    last report of each device and B of its answer.
    """

    another: int
    missing: int
    extra: int
    total: int
    kinds: dict[str, list[tuple[bytes, int]]]

    def __add__(self, other: object) -> Lived:
        """Of the devices of both."""
        assert isinstance(other, Lived)  # noqa: S101
        kinds = {
            k: [*self.kinds.get(k, []), *other.kinds.get(k, [])] for k in self.kinds | other.kinds
        }
        sums = [a + b for a, b in zip(self[:4], other[:4], strict=True)]
        return Lived(sums[0], sums[1], sums[2], sums[3], kinds)


def live(source: ClientSource, name: str, devices: int, *, clear: bool, upkeep: bool) -> Lived:
    """Let devices record one metric, and compare each report with what is demanded. Raises
    AuditedClientError.

    clear: with next to no noise.  upkeep: silent periods are filled by the client.
    """
    file = source.file()
    shown = exchanged(
        MetricsFile({m.name: m for m in file.parts(name)}), nearly_clear if clear else _as_declared
    )
    own = ClientSource(compiled_text(shown), source.command)
    parts = shown.parts(name)
    draw = Random(os.urandom(16))
    steps = [_steps(parts, draw, upkeep=upkeep) for _ in range(devices)]
    lives = [WholeLife(os.urandom(32), tuple(_events(parts[0], one))) for one in steps]
    with own.started() as client:
        seen = client.live(lives)
    return _compared(parts, steps, seen)


def _as_declared(metric: Metric) -> Metric:
    return metric


def left_out(metric: Metric, *, upkeep: bool) -> str:
    """The reason why a metric's answers are not tested; "" if they are."""
    places = asked_of_fixes(metric)
    if places is not None and not upkeep:
        return "the protocol of --command has no places"
    if metric.rules.collected and not upkeep:
        return "the protocol of --command has no upkeep"
    if places is not None and (places.pairs or places.grid.box is None):
        return "there are no lives with trips"
    return ""


def _steps(parts: tuple[Metric, ...], draw: Random, *, upkeep: bool) -> tuple[Step, ...]:
    """A life by lot: it begins with a value, and ends with a look at the clock."""
    metric = parts[0]
    pool = _pool(metric, draw)
    many = _periods(metric)
    days = start_days(metric, many + 1)
    found: list[Step] = [(days[0], draw.choice(pool))]
    for day in days[1:-1]:
        lot = draw.random()
        if upkeep and lot < SHUT:
            continue
        found.append((day, NOTHING if upkeep and lot < SHUT + SILENT else draw.choice(pool)))
    return (*found, (days[-1], NOTHING))


def _periods(metric: Metric) -> int:
    if metric.kind == "flow":
        return max(PERIODS, min(periods_of(metric.details), 60))
    if metric.location is not None:
        return max(PERIODS, min(2 * metric.location.window, 60))
    return max(PERIODS, metric.details.spread) if metric.kind == "number" else PERIODS


def _pool(metric: Metric, draw: Random) -> list[Value]:
    places = asked_of_fixes(metric)
    if places is not None:
        grid = places.grid
        cells = draw.sample(grid.cells(grid.finest), min(DIFFERENT, len(grid.cells(grid.finest))))
        box = grid.box
        outside = (box.south - 1.0 if box.south > -80 else box.north + 1.0, box.west)
        return [*(cell_centre(grid, cell) for cell in cells), outside]
    pool = list(values_of(metric))
    if metric.kind == "number" and metric.details.of_period == "count":
        return [value for value in pool if isinstance(value, float) and 0 < value <= MOST_RECORDED]
    some = draw.sample(pool, min(DIFFERENT, len(pool)))
    always: list[Value] = [
        value for value in (metric.fallback, metric.no_data) if value is not None
    ]
    return [*some, *always, *(ODD_VALUES if metric.kind == "string" else ())]


def _events(metric: Metric, steps: tuple[Step, ...]) -> Iterator[Event]:
    counted = metric.kind == "number" and metric.details.of_period == "count"
    for day, value in steps:
        if counted and isinstance(value, float):
            yield from [Event(metric.base_name, day, 1.0)] * int(value)
        else:
            yield Event(metric.base_name, day, value)


def _compared(
    parts: tuple[Metric, ...], steps: list[tuple[Step, ...]], seen: list[list[SeenReport]]
) -> Lived:
    by_name = {metric.name: metric for metric in parts}
    another = missing = extra = total = 0
    kinds: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
    for life, reports in zip(steps, seen, strict=True):
        if not reports:
            missing += not may_be_silent(parts[0])
            continue
        shown = by_name[reports[0].metric]
        wanted = expected(parts, shown, reports[0].cohort, life)
        own = {(one.metric, one.day): one for one in wanted}
        found = {(one.metric, one.day): one for one in reports}
        extra += len(reports) - len(found) + len(found.keys() - own.keys())
        if not may_be_silent(shown):
            missing += len(own.keys() - found.keys())
        last: dict[str, tuple[bytes, int]] = {}
        for key in found.keys() & own.keys():
            answer, bits = own[key], found[key].bits
            if answer.bits is None:
                continue
            total += 1
            another += looks_another(shown, bits, answer.bits)
            last[answer.kind] = bits, answer.bits
        for kind, pair in last.items():
            kinds[kind].append(pair)
    return Lived(another, missing, extra, total, dict(kinds))


def may_be_silent(metric: Metric) -> bool:
    """Whether a device reports some periods only, which its secret draws."""
    fresh = not metric.params.mechanism.has_permanent_round
    return fresh and (metric.rules.takes_fixes or metric.rules.collected)


def answer_checks(metric: Metric, clear: Lived, noisy: Lived) -> Iterator[Check]:
    """Yield the checks of a device's answers. clear, noisy: the two runs of `live`."""
    name, chance = metric.base_name, chance_of_another(nearly_clear(metric))
    p_value = (
        float(stats.binom.sf(clear.another - 1, clear.total, chance)) if clear.another else 1.0
    )
    yield test(
        name, "each report is the answer that values and history ask for", BOX, p_value,
        f"{clear.another:,} of {clear.total:,} reports gave another answer",
        one_of(clear.total, "reports with another answer", chance),
    )  # fmt: skip
    off = clear.missing + clear.extra + noisy.missing + noisy.extra
    yield exact(
        name, "a report for each period that asks for one, and no other", BOX,
        f"{clear.missing + noisy.missing:,} missing, {clear.extra + noisy.extra:,} too many"
        if off else "",
        one_of(clear.total + noisy.total, "reports missing or too many"),
    )  # fmt: skip
    for kind, pairs in sorted(noisy.kinds.items()):
        yield _noise_of(metric, kind, pairs)


def _noise_of(metric: Metric, kind: str, pairs: list[tuple[bytes, int]]) -> Check:
    """One report of each device whose answer is of a kind, by bits that are set and not."""
    params, k = metric.params, metric.params.num_bits
    width = params.report_bytes
    shown = np.stack([bits_of(bits, k) for bits, _ in pairs])
    held = np.stack([bits_of(answer.to_bytes(width, "little"), k) for _, answer in pairs])
    p_values, found, spread = [], [], 0.0
    for bit, chance in zip((1, 0), chances(params, permanent=False), strict=True):
        if params.scheme.symbols and bit == 0:
            continue  # follows from the other
        total, ones = int((held == bit).sum()), int(shown[held == bit].sum())
        if not total:
            continue
        p_values.append(bounds.count_p_value(ones, total, chance))
        found.append(f"{ones / total:.5f} of {total:,} bits, declared {chance:.5f}")
        spread = max(spread, float(np.sqrt(chance * (1 - chance) / total)))
    return test(
        metric.base_name, f"answers of the kind {kind!r} have the declared noise", BOX,
        len(p_values) * min(p_values), "; ".join(found), shifted(spread, "of a bit's chance"),
    )  # fmt: skip


__all__ = ["AuditedClient", "ExpectedReport", "answer_checks", "left_out", "live"]
