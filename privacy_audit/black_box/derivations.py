"""What devices derive from their secrets: permanent for life, and independent of all else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np

from privacy_audit.black_box import bounds
from privacy_audit.black_box.checks import Check, exact, test
from privacy_audit.black_box.lives import Derived, Life, Value
from privacy_audit.black_box.noise import chi_square
from privacy_audit.black_box.noise_sums import (
    Masks,
    cohort_counts,
    permanent_table,
    product_test,
    residuals,
)
from privacy_audit.black_box.number_scenarios import within_a_stratum
from privacy_audit.black_box.power import bits_off, chance_off, correlated, one_of
from privacy_audit.black_box.scenarios import disjoint, values_of
from privacy_audit.black_box.trials import ClientSource
from rappor_core.calendar import day_of
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.params import RapporParams

BOX = "derivations"
TWIN = "audit-twin"
SERIES = 5  # reports of each device, for the second round alone

Asked = list[tuple[bytes, Value]]


def derive(source: ClientSource, metric: str, asked: Asked) -> list[Derived]:
    """Ask a client that was started for this question alone. Raises AuditedClientError."""
    with source.started() as client:
        return client.derive(metric, asked)


def second_round(source: ClientSource, metric: str, day: int, asked: Asked) -> list[bytes]:
    """`SERIES` reports of each device, in order. Raises AuditedClientError."""
    lives = [Life(secret, ((day, value),) * SERIES) for secret, value in asked]
    with source.started() as client:
        seen = client.encode(metric, lives, SERIES)
    return [report.bits for some in seen for report in some]


def twins(parts: Sequence[Metric]) -> tuple[MetricsFile, str, MetricsFile]:
    """The metric beside one of another name, that name, and the metric with other chances.

    parts: the sub-metrics of one declared name. The name is the twin of the first.
    """
    own = [
        part if part.location or part.details is not None else part.replace(max_reports=None)
        for part in parts
    ]  # fmt: skip
    named = [part.replace(name=TWIN + part.name.removeprefix(part.base_name)) for part in own]
    both = {part.name: part for part in (*own, *named)}
    other = [p.replace(params=p.params.replace(mechanism=_other(p.params))) for p in own]
    return MetricsFile(both), named[0].name, MetricsFile({p.name: p for p in other})


def _other(params: RapporParams) -> TwoRoundMechanism:
    """A second round with one threshold exchanged: another params_id, the same first round."""
    m = params.mechanism
    if params.scheme.symbols:
        step = params.num_bits - 1
        return m.replace(p2=m.p2 - step, q2=m.q2 + 1)
    return m.replace(q2=m.q2 + 1 if m.q2 + 1 != m.p2 and m.q2 < PROBABILITY_SCALE else m.q2 - 1)


def questions(metric: Metric, devices: int) -> tuple[Asked, Asked]:
    """Return pairs of secret and value: fresh secrets with one value, the same with another."""
    if metric.location is not None:
        cells = metric.location.grid.cells(metric.location.level)
        pair: tuple[Value, Value] = cells[0], cells[-1]
    else:
        moved = within_a_stratum(metric) if metric.kind == "number" else None
        pair = moved[1] if moved else disjoint(metric, values_of(metric))
    secrets = [os.urandom(32) for _ in range(devices)]
    return [(s, pair[0]) for s in secrets], [(s, pair[1]) for s in secrets]


def derivation_checks(
    metric: Metric, first: list[Derived], others: dict[str, list[Derived]]
) -> Iterator[Check]:
    """first: of each device.  others: `again`, `value`, `name`, `version`, for the same devices."""
    name, params = metric.name, metric.params
    changed = sum(a != b for a, b in zip(first, others["again"], strict=True))
    yield exact(
        name, "cohort and permanent response are the same in another process", BOX,
        f"{changed:,} of {len(first):,} devices derived something else" if changed else "",
        one_of(len(first), "devices"),
    )  # fmt: skip
    moved = sum(a.cohort != b.cohort for a, b in zip(first, others["value"], strict=True))
    yield exact(
        name, "a device has one cohort for all values", BOX,
        f"{moved:,} of {len(first):,} devices had another one" if moved else "",
        one_of(len(first), "devices"),
    )  # fmt: skip
    if params.mechanism.has_permanent_round:
        for which, text in (
            ("value", "permanent responses of two values are independent"),
            ("name", "permanent responses of two metrics are independent"),
            ("version", "permanent responses under two sets of parameters are independent"),
        ):
            yield _independent(name, params, which, text, first, others[which])
        yield _first_round(name, params, first)
    if metric.rules.jittered(metric):
        yield from _moved_cuts(metric, first, others["value"])
    if params.num_cohorts > 1:
        yield from _cohorts(name, params.num_cohorts, first, others["name"])


def _tables(params: RapporParams, found: list[Derived]) -> tuple[Masks, Masks]:
    k = params.num_bits
    return (
        permanent_table([one.permanent_bits for one in found], k),
        permanent_table([one.bloom_bits for one in found], k),
    )


def _independent(
    name: str,
    params: RapporParams,
    which: str,
    text: str,
    first: list[Derived],
    other: list[Derived],
) -> Check:
    if which == "value":  # values with the same bits share one response, by design
        pairs = [(a, b) for a, b in zip(first, other, strict=True) if a.bloom_bits != b.bloom_bits]
        first, other = [a for a, _ in pairs], [b for _, b in pairs]
    if not first:
        return test(name, text, BOX, 1.0, "all values have the same bits in these cohorts")
    one = residuals(params, *_tables(params, first), permanent=True)
    two = residuals(params, *_tables(params, other), permanent=True)
    z, p_value = product_test(params, one, two, permanent=True)
    return test(
        name, text, BOX, p_value, f"they correlate with z = {z:.2f}",
        correlated(len(first) * params.num_bits),
    )  # fmt: skip


def _moved_cuts(metric: Metric, first: list[Derived], other: list[Derived]) -> Iterator[Check]:
    """A device moves its cut by a uniform constant: one for all numbers.

    first, other: of the two numbers of `within_a_stratum`, which rise.
    """
    found = within_a_stratum(metric)
    if found is None:
        return
    cut, _, parts = found
    number, symbols = metric.details, metric.params.num_bits
    asked = [
        (a.bloom_bits, b.bloom_bits) for a, b in zip(first, other, strict=True)
        if cut in number.cuts(a.cohort, symbols) and a.cohort == b.cohort
    ]  # fmt: skip
    fallen = sum(a > b for a, b in asked)
    yield exact(
        metric.name, "a device compares all numbers with one cut of its own", BOX,
        f"{fallen:,} of {len(asked):,} devices had another cut for a larger number"
        if fallen else "",
        one_of(len(asked), "devices"),
    )  # fmt: skip
    below = min((min(a, b) for a, b in asked), default=0)
    above = [sum(pair[i] > below for pair in asked) for i in (0, 1)]
    p_values = [
        bounds.count_p_value(n, len(asked), part) for n, part in zip(above, parts, strict=True)
    ]
    yield test(
        metric.name, "the cuts of devices are uniform within their stratum", BOX,
        2 * min(p_values),
        f"{above[0]:,} and {above[1]:,} of {len(asked):,} cuts are below, declared "
        f"{parts[0]:.3f} and {parts[1]:.3f}", chance_off(0.5, len(asked), "of a cut's place", 2),
    )  # fmt: skip


def _first_round(name: str, params: RapporParams, first: list[Derived]) -> Check:
    """P(B'=1) for a bit that is set, and for one that is clear."""
    shown, held = _tables(params, first)
    m = params.mechanism
    p_value, found = _of_a_round(params, shown, held, (m.p1, m.q1))
    bit = 1 if params.scheme.symbols else 0  # of which there are more
    return test(
        name, "the first round has its declared chances", BOX, p_value, found,
        bits_off((m.q1, m.p1)[bit] / PROBABILITY_SCALE, (held == bit).sum(axis=0), 2),
    )  # fmt: skip


def _of_a_round(
    params: RapporParams, shown: Masks, held: Masks, thresholds: tuple[int, int]
) -> tuple[float, str]:
    """p-value and text for P(1 shown | bit held) of a round: of bits that are 1, and that are 0."""
    p_values, found = [], []
    for bit, threshold in zip((1, 0), thresholds, strict=True):
        if params.scheme.symbols and bit == 0:
            continue  # follows from the other
        chance, total = threshold / PROBABILITY_SCALE, int((held == bit).sum())
        ones = int(shown[held == bit].sum())
        each = (held == bit).sum(axis=0)
        asked = each > 0
        alone = bounds.two_sided((shown * (held == bit)).sum(axis=0)[asked], each[asked], chance)
        together = bounds.count_p_value(ones, total, chance)
        p_values.append(2 * min(together, float(alone.min(initial=1.0)) * len(alone)))
        found.append(
            f"{ones / max(total, 1):.5f}, declared {chance:.5f}, and of one bit p = "
            f"{alone.min(initial=1.0):.2g}"
        )
    return len(p_values) * min(p_values), "; ".join(found)


def second_round_check(metric: Metric, first: list[Derived], reports: list[bytes]) -> Check:
    """P(S=1) for a permanent 1 and 0, given the permanent bits that the device says it has."""
    params = metric.params
    permanent = permanent_table([one.permanent_bits for one in first], params.num_bits)
    held = np.repeat(permanent, SERIES, axis=0)
    whole = [int.from_bytes(bits, "little") for bits in reports]
    shown = permanent_table(whole, params.num_bits)
    m = params.mechanism
    p_value, found = _of_a_round(params, shown, held, (m.p2, m.q2))
    return test(
        metric.name, "the second round has its declared chances", BOX, p_value, found,
        bits_off(m.p2 / PROBABILITY_SCALE, held.sum(axis=0), 2),
    )  # fmt: skip


def _cohorts(
    name: str, cohorts: int, first: list[Derived], other: list[Derived]
) -> Iterator[Check]:
    counts = cohort_counts([one.cohort for one in first], cohorts).astype(float)
    p_value, _ = chi_square(counts, np.full(cohorts, counts.sum() / cohorts))
    yield test(
        name, "cohorts of the derivations are uniform", BOX, p_value,
        f"{counts.min():,.0f} to {counts.max():,.0f} devices in a cohort",
        chance_off(1 / cohorts, len(first), "of a cohort's share", cohorts),
    )  # fmt: skip
    same = sum(a.cohort == b.cohort for a, b in zip(first, other, strict=True))
    p_value = bounds.count_p_value(same, len(first), 1 / cohorts)
    yield test(
        name, "cohorts of two metrics are independent", BOX, p_value,
        f"{same:,} of {len(first):,} devices are in the same one, {len(first) / cohorts:,.0f} "
        "expected", chance_off(1 / cohorts, len(first), "of the share in one cohort"),
    )  # fmt: skip


def sources(
    source: ClientSource, parts: Sequence[Metric]
) -> tuple[ClientSource, str, ClientSource]:
    """What `twins` gives for `parts`, each file of metrics as the clients of `source` with it."""
    both, name, other = twins(parts)
    return (
        replace(source, metrics=compiled_text(both)),
        name,
        replace(source, metrics=compiled_text(other)),
    )


def a_day(metric: Metric) -> int:
    """A day on which the metric is collected, since 1970-01-01."""
    return day_of(metric.expires - timedelta(days=1))
