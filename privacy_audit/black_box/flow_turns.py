"""Check what a device of flows does over periods: for which it answers, and what it keeps then.

The same secrets live at one place, at another, and without a fix. When they answer must not differ,
nor what their state holds of places and in the ledger once the answer is given. A device that is at
two places must answer with both, in their order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime

from client_sdk.location.dwell_time import is_weekend
from client_sdk.location.recorder import LocationRecorder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.interface import VISITS
from client_sdk.storage.memory import MemoryState
from decoder.grid_cells import cell_centre
from privacy_audit.black_box.checks import Check, exact
from privacy_audit.black_box.derivations import BOX
from privacy_audit.black_box.flow_scenarios import (
    answer_days,
    at,
    cycle_of,
    left_out_of_flows,
    places_of_flow,
)
from privacy_audit.black_box.lives import NOTHING, Life, Step
from privacy_audit.black_box.power import one_of
from privacy_audit.black_box.sdk_client import SdkClient
from privacy_audit.black_box.shown_metrics import exchanged, nearly_clear
from privacy_audit.black_box.trials import ClientSource
from privacy_audit.black_box.turns import independence_check, uniform_check
from privacy_audit.errors import client_errors
from rappor_core.calendar import SECONDS_A_DAY, day_of, period_number
from rappor_core.grid.box import NO_DATA
from rappor_core.grid.grid import PAIR_SEPARATOR
from rappor_core.metrics.flow import Flow
from rappor_core.metrics.location import Slot
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.report import Report

DEVICES = 200


def flow_checks(source: ClientSource, metric: Metric) -> Iterator[Check]:
    """Yield all checks of this module, of a metric of flows. Raises AuditedClientError."""
    if metric.kind != "flow" or left_out_of_flows(metric):
        return
    answers = 2 if metric.details.window and (metric.max_reports or 0) > 1 else 1
    days = answer_days(metric, answers)
    lives = [at(days, place) for place in (*places_of_flow(metric.details), NOTHING)]
    secrets = [os.urandom(32) for _ in range(DEVICES)]
    told = list(zip(*(answered(source, metric, secrets, life) for life in lives), strict=True))
    moved = sum(len(set(some)) > 1 or len(some[0]) != answers for some in told)
    yield exact(
        metric.name, "when a device answers does not depend on its places", BOX,
        f"{moved:,} of {len(told):,} devices answered in another period, or not as often"
        if moved else "",
        one_of(len(told), "devices"),
    )  # fmt: skip
    firsts = [some[0] for some in told if some[0]]
    yield from _drawn(metric, answers, firsts)
    yield _left(source, metric, lives, secrets[: DEVICES // 4])
    if not metric.details.lag:  # the law of answers has moves
        yield _sides(source, metric, days, secrets[: DEVICES // 4])


def answered(
    source: ClientSource, metric: Metric, secrets: list[bytes], life: tuple[Step, ...]
) -> list[tuple[int, ...]]:
    """The periods that devices of a life report, by device. Raises AuditedClientError."""
    with source.started() as client:
        seen = client.record(metric.name, [Life(secret, life) for secret in secrets])
    return [tuple(period_number(metric.period, one.day) for one in some) for some in seen]


def _drawn(metric: Metric, answers: int, told: list[tuple[int, ...]]) -> Iterator[Check]:
    """The period that is answered for is uniform, and in two blocks independent."""
    cycle, lag = cycle_of(metric.details), metric.details.lag
    if cycle < 2 or not told:
        return
    turns = [tuple((period - lag) % cycle for period in some) for some in told]
    firsts = [some[0] for some in turns]
    yield uniform_check(metric.name, "the period of an answer is uniform", firsts, cycle)
    if answers > 1:
        claim = "the periods of two answers are equal only by chance"
        same = [len(set(some)) == 1 for some in turns]
        yield independence_check(metric.name, claim, same, 1 / cycle)


def _left(
    source: ClientSource, metric: Metric, lives: list[tuple[Step, ...]], secrets: list[bytes]
) -> Check:
    """What the state holds after all answers is the same for every life."""
    client, wrong = SdkClient(source.file()), 0
    for secret in secrets:
        states = []
        for life in lives:
            state = MemoryState(secret)
            with client_errors():
                client.step_through(state, metric.name, life)
            entries = [(one.line, one.digest, one.reports) for one in state.entries(metric.name)]
            states.append((state.note(VISITS + metric.name), tuple(entries)))
        wrong += len(set(states)) > 1
    return exact(
        metric.name, "a state keeps nothing of places or answers once they are given", BOX,
        f"{wrong:,} of {len(secrets):,} devices" if wrong else "", one_of(len(secrets), "devices"),
    )  # fmt: skip


def _sides(source: ClientSource, metric: Metric, days: list[int], secrets: list[bytes]) -> Check:
    """Devices without noise that are at one place in the first slot, at another in the second."""
    file = exchanged(source.file().replace(metrics={metric.name: metric}), nearly_clear)
    shown, wrong = file.metrics[metric.name], 0
    for secret in secrets:
        with client_errors():
            reports = _at_two_places(file, shown, days, secret)
        for report in reports:
            period = period_number(metric.period, day_of(report.day))
            own = [day for day in days[:-1] if period_number(metric.period, day) == period]
            value = PAIR_SEPARATOR.join(
                cell if any(_is_in(slot, day) for day in own) else NO_DATA
                for slot, cell in _stays(shown.details)
            )
            answer = shown.value_bits(value, report.cohort)
            wrong += int.from_bytes(report.bits, "little") != answer
    return exact(
        metric.name, "each report is the answer that values ask for, its two places in order", BOX,
        f"{wrong:,} of {len(secrets):,} devices gave another" if wrong else "",
        one_of(len(secrets), "devices"),
    )  # fmt: skip


def _stays(flow: Flow) -> list[tuple[Slot, str]]:
    """The two slots, with the cell in which the device then is."""
    return [(flow.origin, flow.cells[0]), (flow.destination, flow.cells[-1])]


def _is_in(slot: Slot, day: int) -> bool:
    return slot.covers(slot.first, is_weekend(day))


def _at_two_places(
    file: MetricsFile, metric: Metric, days: list[int], secret: bytes
) -> list[Report]:
    state, flow = MemoryState(secret), metric.details
    recorder = Recorder(file.metrics, state, platform=metric.platforms[0])
    places = LocationRecorder(file, state, recorder)
    for day in days[:-1]:
        for slot, cell in sorted(_stays(flow), key=lambda stay: stay[0].first):
            if _is_in(slot, day):
                at = datetime.fromtimestamp(day * SECONDS_A_DAY + 3600 * slot.first, UTC)
                places.fix(metric.name, *cell_centre(flow.grid, cell), at)
    places.roll(datetime.fromtimestamp(days[-1] * SECONDS_A_DAY, UTC))
    return state.take_reports()
