"""Checks that devices' derivations from secrets are permanent, and independent of all else."""

import os
from collections.abc import Iterator
from typing import Final

import numpy as np

from privacy_audit.black_box import bounds
from privacy_audit.black_box.checks import Check, bits_off, chance_off, correlated, counted, test
from privacy_audit.black_box.noise import chi_square
from privacy_audit.black_box.noise_sums import (
    Masks,
    by_bit,
    permanent_table,
    product_test,
    residuals,
)
from privacy_audit.black_box.program_client import ClientSource, Derived, Event, Life, Value
from privacy_audit.black_box.scenarios import ODD, disjoint, hashes_text, start_days, values_of
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.params import RapporParams

PART: Final = "derivations"
TWIN = "audit-twin"
ENDS = 0.0, 0.999999  # fractions of a stratum, between which a device shifts its threshold
ENCODED = 600  # the number of values whose bits are compared
LONG = 100  # the length of two strings' common prefix, which exceeds a code's bits
SERIES = 5  # reports per device, used only for the second round

Asked = list[tuple[bytes, Value]]


def derivation_checks(source: ClientSource, metric: Metric, devices: int) -> Iterator[Check]:
    """Yield the checks of cohorts, bits and both rounds, whose values several processes derive.

    Args:
        source: The client.
        metric: A declared metric.
        devices: The number of devices, each with a different secret.

    Raises:
        AuditedClientError: The client fails.
    """
    both, twin, other = _twins(source.file().parts(metric.base_name))
    values = disjoint(metric, values_of(metric))
    secrets = [os.urandom(32) for _ in range(devices)]
    first, second = ([(secret, value) for secret in secrets] for value in values)

    def derived(file: MetricsFile, name: str, pairs: Asked) -> list[Derived]:
        with source.declaring(file).started() as client:
            return client.derive(name, pairs)

    base = derived(both, metric.name, first)
    others = {
        "again": derived(both, metric.name, first),
        "value": derived(both, metric.name, second),
        "name": derived(both, twin, first),
        "version": derived(other, metric.name, first),
    }
    yield from _checks(metric, base, others)
    strings: list[Value] = []  # values that an app might record
    if hashes_text(metric):
        strings = [value for pair in ODD for value in pair]
    elif metric.rules.free_text:  # their common prefix is longer than any code
        strings = ["a" * LONG + "1", "a" * LONG + "2"]
    pool = (*values_of(metric), *strings)
    some = [(secret, pool[i % len(pool)]) for i, secret in enumerate(secrets[:ENCODED])]
    yield _encoded(metric, some, derived(both, metric.name, some))
    event = Event(metric.name, start_days(metric, 1)[0], values[0])
    with source.declaring(both).started() as client:
        lives = client.encode([Life(secret, (event,) * SERIES) for secret in secrets], SERIES)
    yield _second_round(metric, base, [report.bits for life in lives for report in life])


def _twins(parts: tuple[Metric, ...]) -> tuple[MetricsFile, str, MetricsFile]:
    """Return a file with the metric and a twin, the twin's name, and a file with other noise.

    The twin differs only in its name. `parts` are the sub-metrics of one declared name; the
    returned name is that of the first one's twin.
    """
    single = [
        part if part.location or part.details is not None else part.replace(max_reports=None)
        for part in parts
    ]
    named = [part.replace(name=TWIN + part.name.removeprefix(part.base_name)) for part in single]
    both = {part.name: part for part in (*single, *named)}
    other = [p.replace(params=p.params.replace(mechanism=_other(p.params))) for p in single]
    return MetricsFile(both), named[0].name, MetricsFile({p.name: p for p in other})


def _other(params: RapporParams) -> TwoRoundMechanism:
    """Return the mechanism with a second round changed by 2**-16, so that params_id differs."""
    m = params.mechanism
    if params.scheme.symbols:
        return m.replace(p2=m.p2 - params.num_bits + 1, q2=m.q2 + 1)
    return m.replace(q2=m.q2 + 1 if m.q2 + 1 != m.p2 and m.q2 < PROBABILITY_SCALE else m.q2 - 1)


def _checks(
    metric: Metric, first: list[Derived], others: dict[str, list[Derived]]
) -> Iterator[Check]:
    """Yield the checks of derivations; the keys of `others` are what differs from `first`."""
    name, params, total = metric.name, metric.params, len(first)
    changed = sum(a != b for a, b in zip(first, others["again"], strict=True))
    what = "cohort and permanent response are the same in another process"
    text = f"{changed:,} of {total:,} devices derived something else"
    yield counted(name, what, PART, changed, text, total, "devices")
    moved = sum(a.cohort != b.cohort for a, b in zip(first, others["value"], strict=True))
    text = f"{moved:,} of {total:,} devices had another one"
    yield counted(
        name, "a device has one cohort for all values", PART, moved, text, total, "devices"
    )
    if params.mechanism.has_permanent_round:
        apart = [(a, b) for a, b in zip(first, others["value"], strict=True)
                 if a.bloom_bits != b.bloom_bits]  # fmt: skip
        for what, pairs in (  # values with the same bits share one response, by design
            ("permanent responses of two values", apart),
            ("permanent responses of two metrics", zip(first, others["name"], strict=True)),
            ("permanent responses under two sets of parameters",
             zip(first, others["version"], strict=True)),
        ):  # fmt: skip
            yield _independent(name, params, f"{what} are independent", list(pairs))
        yield _first_round(name, params, first)
    if params.num_cohorts > 1:
        yield from _cohorts(name, params.num_cohorts, first, others["name"])


def _encoded(metric: Metric, pairs: Asked, derived: list[Derived]) -> Check:
    """Check the bits B of values, which must depend on the cohort, not on the device.

    A device's secret only shifts the threshold of a number within its stratum.
    """
    bits_of = metric.params.scheme.jittered_bits
    wrong = [
        value
        for (_, value), device in zip(pairs, derived, strict=True)
        if device.bloom_bits not in {bits_of(metric, value, device.cohort, end) for end in ENDS}
    ]
    what = "values set the declared bits"
    text = f"{len(wrong):,} of {len(pairs):,} did not, such as {(wrong or [None])[0]!r:.60}"
    return counted(metric.name, what, PART, len(wrong), text, len(pairs), "values")


def _tables(params: RapporParams, derived: list[Derived]) -> tuple[Masks, Masks]:
    k = params.num_bits
    return (
        permanent_table([d.permanent_bits for d in derived], k),
        permanent_table([d.bloom_bits for d in derived], k),
    )


def _independent(
    name: str, params: RapporParams, text: str, pairs: list[tuple[Derived, Derived]]
) -> Check:
    if not pairs:
        return test(name, text, PART, 1.0, "all values have the same bits in these cohorts")
    first, second = (
        residuals(params, *_tables(params, list(side)), permanent=True)
        for side in zip(*pairs, strict=True)
    )
    z, p_value = product_test(params, first, second, permanent=True)
    return test(
        name, text, PART, p_value, f"they correlate with z = {z:.2f}",
        correlated(len(pairs) * params.num_bits),
    )  # fmt: skip


def _first_round(name: str, params: RapporParams, first: list[Derived]) -> Check:
    """Check P(B'=1) where the value sets the bit, and where it does not."""
    after, before = _tables(params, first)
    p1, q1, _, _ = params.mechanism.rates
    p_value, findings = round_test(params, after, before, (p1, q1))
    bit = 1 if params.scheme.symbols else 0  # the more frequent kind
    return test(
        name, "the first round has the declared probabilities", PART, p_value, findings,
        bits_off((q1, p1)[bit], (before == bit).sum(axis=0), 2),
    )  # fmt: skip


def _second_round(metric: Metric, first: list[Derived], reports: list[bytes]) -> Check:
    """Check P(S=1) where the permanent bit that the device derives is 1, and where it is 0."""
    params, (_, _, p2, q2) = metric.params, metric.params.mechanism.rates
    permanent = permanent_table([device.permanent_bits for device in first], params.num_bits)
    before = np.repeat(permanent, SERIES, axis=0)
    after = permanent_table([int.from_bytes(bits, "little") for bits in reports], params.num_bits)
    p_value, findings = round_test(params, after, before, (p2, q2))
    return test(
        metric.name, "the second round has the declared probabilities", PART, p_value, findings,
        bits_off(p2, before.sum(axis=0), 2),
    )  # fmt: skip


def round_test(
    params: RapporParams, after: Masks, before: Masks, chances: tuple[float, float]
) -> tuple[float, str]:
    """Test a round's P(1 after | bit before) for bits 1 and 0; return p-value and finding."""
    p_values, findings = [], []
    for chance, mask, total, ones in by_bit(params, after, before, chances):
        each = mask.sum(axis=0)
        used = each > 0
        alone = bounds.two_sided((after * mask).sum(axis=0)[used], each[used], chance)
        together = bounds.count_p_value(ones, total, chance)
        p_values.append(2 * min(together, float(alone.min(initial=1.0)) * max(len(alone), 1)))
        findings.append(
            f"{ones / max(total, 1):.5f}, declared {chance:.5f}, and of one bit p = "
            f"{alone.min(initial=1.0):.2g}"
        )
    return len(p_values) * min(p_values), "; ".join(findings)


def _cohorts(
    name: str, cohorts: int, first: list[Derived], other: list[Derived]
) -> Iterator[Check]:
    counts = np.bincount([device.cohort for device in first], minlength=cohorts).astype(float)
    p_value = chi_square(counts, np.full(cohorts, counts.sum() / cohorts))
    yield test(
        name, "cohorts of the derivations are uniform", PART, p_value,
        f"{counts.min():,.0f} to {counts.max():,.0f} devices in a cohort",
        chance_off(1 / cohorts, len(first), "of a cohort's share", cohorts),
    )  # fmt: skip
    same = sum(a.cohort == b.cohort for a, b in zip(first, other, strict=True))
    yield test(
        name, "cohorts of two metrics are independent", PART,
        bounds.count_p_value(same, len(first), 1 / cohorts),
        f"{same:,} of {len(first):,} devices are in the same one, {len(first) / cohorts:,.0f} "
        "expected", chance_off(1 / cohorts, len(first), "of the share in one cohort"),
    )  # fmt: skip
