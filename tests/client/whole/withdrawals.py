"""Check a withdrawal of consent: nothing is left after it, and after a new consent a device is
another one.

Whole clients, whose reports are permanent responses (no second round), record the same values
before a withdrawal of consent and after it was given again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scipy import stats

from privacy_audit.black_box.checks import Check, correlated, exact, one_of, test
from privacy_audit.black_box.noise_sums import permanent_table, product_test, residuals
from privacy_audit.black_box.program_client import SeenReport
from rappor_core.calendar import SECONDS_A_DAY, last_day, period_number
from rappor_core.errors import MetricsFileError
from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.whole.crowd_lives import withdrawn_lives
from tests.client.whole.expected_answers import exchanged
from tests.client.whole.observables import seen_of
from tests.client.whole.witness import WitnessedDevice

BOX: Final = "installations"
TIMES = 4  # as many values as declared: those of before the withdrawal count on


def answered_again(file: MetricsFile) -> MetricsFile:
    """The metrics whose reports show permanent responses, with room for the values of two lives
    where the kind allows it."""
    some = {name: _roomy(metric) for name, metric in file.metrics.items()}
    return exchanged(MetricsFile(some), without_second_round)


def without_second_round(metric: Metric) -> Metric:
    """Silence the second round: reports are permanent responses, under another `params_id`."""
    m = metric.params.mechanism
    if not m.has_permanent_round:
        return metric
    silent = m.replace(p2=PROBABILITY_SCALE, q2=0)
    return metric.replace(params=metric.params.replace(mechanism=silent))


def _roomy(metric: Metric) -> Metric:
    try:
        return metric.replace(max_memoized_values=TIMES * metric.max_memoized_values)
    except MetricsFileError:
        return metric


def withdrawal_checks(file: MetricsFile, devices: list[WitnessedDevice]) -> Iterator[Check]:
    """Check what devices send and keep around a withdrawal of consent and a new consent."""
    devices = [one for one in devices if not one.stuck]
    n = len(devices)
    life = withdrawn_lives(file)[0]
    waiting, again = (int(life[number].now // SECONDS_A_DAY) for number in (1, 2))
    sent = sum(bool(one.unwanted) for one in devices)
    yield exact(
        "", "nothing leaves between a withdrawal and a new consent", BOX,
        f"{sent} of {n} devices sent something" if sent else "", one_of(n, "devices"),
    )  # fmt: skip
    late = [
        report
        for one in devices
        for report in _since(one)
        if report.day <= last_day(unit := file.metrics[report.metric].period,
                                  period_number(unit, waiting))
    ]  # fmt: skip
    yield exact(
        "", "nothing leaves that waited when consent was withdrawn", BOX,
        f"{len(late)} reports, of {late[0].metric} among others" if late else "",
        one_of(n, "devices"),
    )  # fmt: skip
    same = sum(one.secret == one.last_secret for one in devices)
    left = sum(one.secret in wiped for one in devices for wiped in one.wiped)
    wrong = [f"{same} of {n} devices go on with theirs"] if same else []
    wrong += [f"{left} have it in their files after the no"] if left else []
    yield exact(
        "", "a withdrawal ends the secret of a device", BOX, "; ".join(wrong), one_of(n, "devices")
    )
    yield _independent(file, devices, dict(life[0].recorded), (waiting, again))


def _since(device: WitnessedDevice) -> list[SeenReport]:
    """All that was sent since consent was given again."""
    rest = WitnessedDevice(requests=device.requests[device.since :])
    return [report for some in seen_of(rest).values() for report in some]


def _independent(
    file: MetricsFile,
    devices: list[WitnessedDevice],
    values: dict[str, object],
    days: tuple[int, int],
) -> Check:
    """Responses and cohorts of one value, first and after the new consent, over all metrics.

    days: the last before, and the first after.
    """
    p_values, found, bits = [1.0], [], 0
    for metric in file.declared:
        if not _compared(metric):
            continue
        pairs = []
        for device in devices:
            own = seen_of(device).get(metric.name, [])
            sides = (
                [r for r in own if r.day < days[0]][:1],
                [r for r in own if r.day >= days[1]][:1],
            )
            pairs += list(zip(*sides, strict=False))
        if not pairs:
            continue
        params, tables = metric.params, []
        for side in zip(*pairs, strict=True):
            shown = [int.from_bytes(one.bits, "little") for one in side]
            held = [metric.value_bits(values[metric.name], one.cohort) for one in side]
            masks = (permanent_table(x, params.num_bits) for x in (shown, held))
            tables.append(residuals(params, *masks, permanent=True))
        z, p_value = product_test(params, tables[0], tables[1], permanent=True)
        alike = sum(a.cohort == b.cohort for a, b in pairs)
        chance = float(stats.binom.sf(alike - 1, len(pairs), 1 / params.num_cohorts))
        p_values += [p_value, chance]
        told = f"{metric.name}: {alike} of {len(pairs)} devices are in the same cohort"
        found.append((min(p_value, chance), f"{told}, and responses correlate with z = {z:.2f}"))
        bits += len(pairs) * params.num_bits
    return test(
        "", "responses and cohorts after a new consent are independent of those before", BOX,
        min(p_values) * max(len(p_values) - 1, 1), min(found, default=(1.0, "none was seen"))[1],
        correlated(bits),
    )  # fmt: skip


def _compared(metric: Metric) -> bool:
    """Whether a report of a day is of the value that was recorded on it."""
    own = metric.location is None and not metric.rules.collected
    return (
        own and metric.max_reports_per_period == 1 and metric.params.mechanism.has_permanent_round
    )
