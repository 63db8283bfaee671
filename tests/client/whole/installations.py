"""Audit of whole installations: `Client`, SQLite, queue, batches, HTTP on the loopback address.

One crowd has all metrics of the file, as a device has. Each condition of the crowd is a controlled
process (`environment`); what is asked of it is in `observables`, `state_files` and here.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from scipy import stats

from privacy_audit.black_box.answers import looks_another, nearly_clear
from privacy_audit.black_box.checks import Check, exact, one_of, shifted, test
from privacy_audit.black_box.noise_sums import permanent_table, product_test, residuals
from privacy_audit.black_box.program_client import SeenReport
from privacy_audit.black_box.state_files import file_checks
from rappor_core.calendar import SECONDS_A_DAY
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.whole import crowd_lives
from tests.client.whole.alone import each_alone
from tests.client.whole.conduct import conduct_checks
from tests.client.whole.crowd_lives import OFTEN, withdrawn_lives
from tests.client.whole.expected_answers import (
    NOTHING,
    Step,
    exchanged,
    expected,
    hour_of,
    may_be_silent,
)
from tests.client.whole.observables import Crowd, influence_checks, observable_checks, seen_of
from tests.client.whole.withdrawals import answered_again, withdrawal_checks
from tests.client.whole.witness import (
    Influence,
    Sitting,
    Witnessed,
    WitnessedDevice,
    WitnessTask,
    influences,
    witness,
)

BOX: Final = "installations"


class ObservedCrowd(NamedTuple):
    """All observations of a crowd's processes. clear: lives with next to no noise.

    again: metrics of `consented`, the lives in which consent is withdrawn and given again.
    """

    crowd: Crowd
    clear: Witnessed
    influences: list[Influence]
    again: MetricsFile
    consented: Witnessed


def installation_checks(declared: MetricsFile, processes: int, devices: int) -> Iterator[Check]:
    """Yield all checks of a crowd of installations. devices: of each condition. Raises
    AuditedClientError."""
    file = crowd_lives.crowd_file(declared)
    clear = exchanged(file, nearly_clear)
    with tempfile.TemporaryDirectory(prefix="rappor-audit-") as root:
        found = _run(file, clear, Path(root), processes, devices)
    crowd = found.crowd
    yield from influence_checks(found.influences)
    yield from conduct_checks(crowd)
    yield from withdrawal_checks(found.again, found.consented.devices)
    delay = crowd_lives.MEAN_DELAY if crowd_lives.alone_in(file) else None
    yield from observable_checks(crowd, delay, crowd_lives.PAD_TO)
    files = [
        [device.files[-1] for one in some for device in one.devices if device.files]
        for some in ((crowd.usual, crowd.anew), (crowd.others, crowd.others_anew))
    ]
    if all(files):
        yield from file_checks(files[0], files[1], BOX)
    yield from _answers(clear, crowd_lives.lives(clear)[2], found.clear.devices)
    yield _cohorts(file, [*crowd.usual.devices, *crowd.anew.devices, *crowd.others_anew.devices])
    yield from _apart(file, [*crowd.usual.devices, *crowd.anew.devices])


def _run(
    file: MetricsFile, clear: MetricsFile, root: Path, processes: int, devices: int
) -> ObservedCrowd:
    def run(tasks: list[WitnessTask]) -> list[Witnessed]:
        return each_alone(witness, tasks, processes)

    crowd = crowd_lives.run_crowd(compiled_text(file), root, run, file, devices)
    changing = crowd_lives.lives(clear)[2]
    asked = WitnessTask(compiled_text(clear), str(root / "clear"), os.urandom(32), crowd_lives.HERE,
                  (changing,) * devices, crowd_lives.DELIVERY)  # fmt: skip
    again = answered_again(file)
    consented = replace(
        asked, metrics=compiled_text(again), root=str(root / "again"),
        lives=(withdrawn_lives(again) * devices)[:devices],
    )  # fmt: skip
    shown, new = run([asked, consented])
    (told,) = each_alone(influences, [replace(asked, metrics=compiled_text(file))], 1)
    return ObservedCrowd(crowd, shown, told, again, new)


def _answers(
    clear: MetricsFile, life: tuple[Sitting, ...], devices: list[WitnessedDevice]
) -> Iterator[Check]:
    """Reports of whole installations are the answers that the declaration asks for."""
    for metric in clear.declared:
        if metric.name == OFTEN or not clear.parts(metric.base_name):
            continue
        steps = _steps(metric, life)
        another = off = total = 0
        for device in devices:
            reports = seen_of(device).get(metric.base_name, [])
            wrong, lost, number = _compared(clear.parts(metric.base_name), steps, reports)
            another, off, total = another + wrong, off + lost, total + number
        yield exact(
            metric.base_name, "installations: each report is the answer that values ask for", BOX,
            f"{another:,} of {total:,} gave another answer, {off:,} are missing or too many"
            if another > 1 or off else "",
            one_of(total, "reports", 1e-6),
        )  # fmt: skip


def _steps(metric: Metric, life: tuple[Sitting, ...]) -> tuple[Step, ...]:
    """What a metric takes on which day, and looks at the clock on all others."""
    found: list[Step] = []
    for sitting in life:
        day = int(sitting.now // SECONDS_A_DAY)
        values = [value for name, value in sitting.recorded if name == metric.base_name]
        found.append((day, values[0] if values else NOTHING))
    return tuple(found)


def _compared(
    parts: tuple[Metric, ...], steps: tuple[Step, ...], reports: list[SeenReport]
) -> tuple[int, int, int]:
    """How many reports gave another answer, how many are missing or too many, and of how many."""
    if not reports:
        made = parts[0].rules.collected or parts[0].rules.takes_fixes
        return 0, 0 if made else len(steps), 0
    shown = next(metric for metric in parts if metric.name == reports[0].metric)
    wanted = {
        (one.metric, one.day): one
        for one in expected(parts, shown, reports[0].cohort, steps, hour_of)
    }
    found = {(one.metric, one.day): one for one in reports}
    off = len(reports) - len(found) + len(found.keys() - wanted.keys())
    off += 0 if may_be_silent(shown) else len(wanted.keys() - found.keys())
    another = 0
    for key in found.keys() & wanted.keys():
        bits = wanted[key].bits
        another += bits is not None and looks_another(shown, found[key].bits, bits)
    return another, off, len(found)


def _cohorts(file: MetricsFile, devices: list[WitnessedDevice]) -> Check:
    """Devices of independent randomness, by the cohort that most of them are in."""
    p_values, found, fewest, chance = [1.0], [(1.0, "there are no cohorts")], len(devices), 1.0
    seen = [seen_of(device) for device in devices]
    for metric in file.declared:
        cohorts = [own[metric.base_name][0].cohort for own in seen if metric.base_name in own]
        m = metric.params.num_cohorts
        if m > 1 and cohorts:
            which, number = Counter(cohorts).most_common(1)[0]
            p_values.append(m * float(stats.binom.sf(number - 1, len(cohorts), 1 / m)))
            told = f"{metric.name}: {number} of {len(cohorts)} devices are in cohort {which}"
            found.append((p_values[-1], told))
            fewest, chance = min(fewest, len(cohorts)), min(chance, 1 / m)
    return test(
        "", "installations: cohorts are uniform", BOX, min(p_values) * max(len(p_values) - 1, 1),
        min(found)[1], one_of(fewest if chance < 1 else 0, "devices in one cohort", chance),
    )  # fmt: skip


def _apart(file: MetricsFile, devices: list[WitnessedDevice]) -> Iterator[Check]:
    """Two metrics that take one value on one day: their noise is drawn apart."""
    if OFTEN not in file.metrics:
        return
    often = file.metrics[OFTEN]
    twin = next(m for m in file.declared if m.params == often.params)
    life = crowd_lives.lives(file)[0]
    day, value = int(life[0].now // SECONDS_A_DAY), dict(reversed(life[0].recorded))[twin.name]
    tables = []
    for metric in (twin, often):
        firsts = []
        for device in devices:
            own = [one for one in seen_of(device).get(metric.name, []) if one.day == day]
            firsts += own[:1]
        if len(firsts) < len(devices):
            return
        raw = [int.from_bytes(one.bits, "little") for one in firsts]
        held = [metric.value_bits(value, one.cohort) for one in firsts]
        shown, own_bits = (permanent_table(x, metric.params.num_bits) for x in (raw, held))
        tables.append(residuals(metric.params, shown, own_bits, permanent=False))
    z, p_value = product_test(often.params, tables[0], tables[1], permanent=False)
    yield test(
        twin.name, "the noise of two metrics is independent", BOX, p_value,
        f"reports of {len(devices):,} devices correlate with those of a second metric, z = {z:.2f}",
        shifted(1 / (len(devices) * often.params.num_bits) ** 0.5, "of correlation"),
    )  # fmt: skip
