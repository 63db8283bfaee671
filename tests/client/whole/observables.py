"""Check everything besides report bits: what a device sends, when, in which order, and what it
stores.

Whole clients run in processes whose randomness is the audit's (`environment`). With the same
randomness two lives must show the same but for the bits of their reports, and one life the same on
another machine; with other randomness, on the same machine, nothing that is drawn may come again.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

from client_sdk.delivery.messages import read_body
from client_sdk.randomization.key_derivation import SECRET_BYTES
from privacy_audit.black_box.checks import Check, exact, one_of, shifted, test
from privacy_audit.black_box.program_client import SeenReport
from privacy_audit.black_box.requests import request_checks
from rappor_core.calendar import day_of
from rappor_core.wire.report import GroupedBatch
from tests.client.whole.witness import Influence, Witnessed, WitnessedDevice, WitnessedRequest
from tests.client.whole.witnessed_client import CERTAIN_BITS

BOX: Final = "installations"
TICKS = 100  # of a mean delay
MIN_BITS = 32.0  # of a report's noise, from which on single bits of randomness are looked at


class Crowd(NamedTuple):
    """The same devices under several conditions of randomness, machine and values.

    usual: lives A, machine a.  elsewhere: lives A with the same randomness, machine b.
    others: lives B with the same randomness, machine a.  changing: lives whose values change, with
    the same randomness.  anew, others_anew: lives A and B with other randomness, machine a.
    """

    usual: Witnessed
    elsewhere: Witnessed
    others: Witnessed
    changing: Witnessed
    anew: Witnessed
    others_anew: Witnessed


def observable_checks(crowd: Crowd, mean_delay: float | None, pad_to: int) -> Iterator[Check]:
    """Yield all checks of observables. mean_delay, pad_to: of the delivery; None: no metric makes
    a batch by itself, whose delay would be seen."""
    yield _of_sending([device for one in crowd for device in one.devices])
    yield from _of_the_machine(crowd)
    yield from _of_the_values(crowd)
    yield from _of_randomness(crowd)
    independent = [*crowd.usual.devices, *crowd.anew.devices, *crowd.others_anew.devices]
    yield from request_checks([device.requests for device in independent], BOX, pad_to)
    yield _of_heads(independent)
    yield from _of_order(independent)
    if mean_delay is not None:
        yield _of_delays(independent, mean_delay)


def _of_sending(devices: list[WitnessedDevice]) -> Check:
    """What waits leaves when the app asks for it."""
    stuck = [device.stuck for device in devices if device.stuck]
    return exact(
        "", "the client sends what waits without an error", BOX,
        f"{len(stuck)} of {len(devices)} devices did not: {stuck[0]}" if stuck else "",
        one_of(len(devices), "devices"),
    )  # fmt: skip


def _of_the_machine(crowd: Crowd) -> Iterator[Check]:
    """Secrets, reports and all that is sent follow from the system's randomness alone."""
    pairs = comparable(crowd.usual.devices, crowd.elsewhere.devices)
    for what, same in (
        ("the secret", [a.secret == b.secret for a, b in pairs]),
        ("all that is sent", [_sent(a) == _sent(b) for a, b in pairs]),
    ):
        other = same.count(False)
        yield exact(
            "", f"{what} does not depend on host, path, user, process or time", BOX,
            f"{other} of {len(pairs)} devices had another with the same randomness elsewhere"
            if other else "",
            one_of(len(pairs), "devices"),
        )  # fmt: skip
    read = sorted({name for one in crowd for name in one.read})
    yield exact(
        "", "files that tell of the machine are not read", BOX, ", ".join(read),
        one_of(sum(len(one.devices) for one in crowd), "devices"),
    )  # fmt: skip


def comparable(
    one: list[WitnessedDevice], other: list[WitnessedDevice]
) -> list[tuple[WitnessedDevice, WitnessedDevice]]:
    """Pairs of devices that drew the same random bytes, so that neither was disturbed."""
    return [(a, b) for a, b in zip(one, other, strict=False) if not (a.disturbed or b.disturbed)]


def _sent(device: WitnessedDevice) -> list[list[WitnessedRequest]]:
    """Without the numbers of connections, which count on over devices."""
    return [[one._replace(connection=0) for one in some] for some in device.requests]


def _of_the_values(crowd: Crowd) -> Iterator[Check]:
    """What stands around the bits, for two lives with the same randomness."""
    n = len(crowd.usual.devices)
    pairs = [
        (a, b)
        for other in (crowd.others, crowd.changing)
        for a, b in comparable(crowd.usual.devices, other.devices)
    ]
    for what, seen in (
        ("number and order of requests, and the days and metrics in them", _contents),
        ("headers and sizes of requests, Content-Length among them", _heads),
        ("ids of batches", _ids),
        ("planned times of sending", lambda device: device.delays),
        ("what leaves before its time", lambda device: device.early),
        ("connections", _connections),
    ):
        differ = sum(seen(a) != seen(b) for a, b in pairs)
        yield exact(
            "", f"values do not show in {what}", BOX,
            f"{differ} of {len(pairs)} pairs of lives differ in it, with the same randomness"
            if differ else "",
            one_of(len(pairs), "pairs of lives"),
        )  # fmt: skip
    early = sum(device.early for one in crowd for device in one.devices)
    yield exact(
        "", "nothing leaves before its random time", BOX, f"{early} requests did" if early else "",
        one_of(n * len(crowd), "devices"),
    )  # fmt: skip


def _contents(device: WitnessedDevice) -> list[list[object]]:
    return [[_structure(one) for one in some] for some in device.requests]


def _structure(request: WitnessedRequest) -> object:
    return [
        (group.metric, group.params_id, group.day, [cohort for cohort, _ in group.rows])
        for group in _batch(request).groups
    ]


def _batch(request: WitnessedRequest) -> GroupedBatch:
    return read_body(request.body)


def seen_of(device: WitnessedDevice) -> dict[str, list[SeenReport]]:
    """Group a device's reports by declared name, in order of days."""
    found: dict[str, list[SeenReport]] = {}
    for some in device.requests:
        for request in some:
            for group in _batch(request).groups:
                own = found.setdefault(group.metric.partition("/")[0], [])
                own += [
                    SeenReport(group.metric, c, day_of(group.day), bits) for c, bits in group.rows
                ]
    return {name: sorted(own, key=lambda one: one.day) for name, own in found.items()}


def _heads(device: WitnessedDevice) -> list[list[object]]:
    return [[(one.line, one.headers, len(one.body)) for one in some] for some in device.requests]


def _ids(device: WitnessedDevice) -> list[list[str]]:
    return [[_batch(one).batch_id for one in some] for some in device.requests]


def _connections(device: WitnessedDevice) -> list[list[int]]:
    """How many requests each connection of a sitting had."""
    return [sorted(Counter(one.connection for one in some).values()) for some in device.requests]


def _of_randomness(crowd: Crowd) -> Iterator[Check]:
    """On one machine, at one path: nothing that is drawn comes again."""
    devices = [*crowd.usual.devices, *crowd.anew.devices, *crowd.others_anew.devices]
    again = len(devices) - len({device.secret for device in devices})
    yield exact(
        "", "the same machine makes another secret each time", BOX,
        f"{again} of {len(devices)} secrets came again" if again else "",
        one_of(len(devices), "secrets"),
    )  # fmt: skip
    secrets = [device.secret for device in devices]
    yield secret_check("", secrets)


def secret_check(metric: str, secrets: Sequence[bytes]) -> Check:
    """Check that the bytes within a secret, and those at one place of all secrets, have as many
    distinct values as random ones.

    A bound, for any number of installations: n random bytes are of d kinds or fewer with
    probability C(256, d) (d / 256)^n at most.
    """
    short = sum(len(secret) < SECRET_BYTES for secret in secrets)
    if short:
        told = f"{short:,} of {len(secrets):,} have fewer than {SECRET_BYTES} bytes"
        return exact(metric, "secrets are random", BOX, told)
    table = np.array([list(secret[:SECRET_BYTES]) for secret in secrets], dtype=np.uint8)
    fewest, bounds_of = [], []
    for rows in (table, table.T):
        kinds = min(len(set(row.tolist())) for row in rows)
        log = math.lgamma(257) - math.lgamma(kinds + 1) - math.lgamma(257 - kinds)
        log += rows.shape[1] * math.log(kinds / 256) + math.log(len(rows))
        bounds_of.append(math.exp(min(log, 0.0)))
        fewest.append(kinds)
    return test(
        metric, "secrets are random", BOX, 2 * min(bounds_of),
        f"{fewest[0]} kinds of bytes or more in each of {len(secrets):,} secrets, {fewest[1]} or "
        "more at each place",
        one_of(len(secrets), "secrets of few random bytes"),
    )  # fmt: skip


def influence_checks(found: list[Influence]) -> Iterator[Check]:
    """Check that secrets and reports draw and use as much randomness as their law needs."""
    for one in found:
        if one.what.startswith("secret"):
            wrong = "" if one.what == "secret" else "the same randomness gave two secrets"
            if one.drawn < SECRET_BYTES or one.bits < SECRET_BYTES // 2:
                wrong = f"{one.drawn} bytes are drawn, and {one.bits} of them show"
            yield exact(
                "", f"a secret has {SECRET_BYTES} bytes of the system's randomness", BOX, wrong,
                one_of(1_000_000, "secrets"),
            )  # fmt: skip
            continue
        wrong = ""
        needed = min(one.entropy, CERTAIN_BITS)
        if 8 * one.drawn < needed:
            wrong = f"{8 * one.drawn} bits are drawn for noise that has {one.entropy:.0f}"
        elif one.entropy >= MIN_BITS and one.bits < needed / 2:
            wrong = f"{one.bits} bits of randomness show in noise that has {one.entropy:.0f}"
        yield exact(
            one.metric, "a report draws as many random bits as its noise has, and they show", BOX,
            wrong, one_of(1_000_000, "reports"),
        )  # fmt: skip


def _of_heads(devices: list[WitnessedDevice]) -> Check:
    every = [one for device in devices for some in device.requests for one in some]
    heads = {tuple(pair for pair in one.headers if pair[0] != "Content-Length") for one in every}
    return exact(
        "", "requests of all devices have the same headers, in one order", BOX,
        f"{len(heads)} kinds of headers" if len(heads) > 1 else "", one_of(len(every), "requests"),
    )  # fmt: skip


def _of_order(devices: list[WitnessedDevice]) -> Iterator[Check]:
    """Batches leave in random order: by metric, and one after another."""
    rounds = [
        [min(group.metric for group in _batch(one).groups) for one in some]
        for device in devices
        for some in device.requests
    ]
    sums, variances = defaultdict[str, float](float), defaultdict[str, float](float)
    terms: Counter[str] = Counter()
    before: Counter[tuple[str, str]] = Counter()
    expected: Counter[tuple[str, str]] = Counter()
    for names in rounds:
        n, most = len(names), Counter(names)
        for name, m in most.items():
            if m == n:
                continue  # nothing to be before or after
            places = sum(place - (n - 1) / 2 for place, own in enumerate(names) if own == name)
            sums[name] += places / n  # at most half a place each
            variances[name] += m * (n - m) * (n + 1) / 12 / n**2  # of m places drawn from n
            terms[name] += 1
        before.update(pair for pair in pairwise(names) if pair[0] != pair[1])
        expected.update({(a, b): most[a] * most[b] / n for a in most for b in most if a != b})
    if not terms:
        return
    found = {name: sums[name] / math.sqrt(variances[name]) for name in terms}
    worst = max(found, key=lambda name: abs(found[name]))
    yield test(
        "", "batches leave in random order", BOX,
        2 * float(stats.norm.sf(abs(found[worst]))) * len(found),
        f"batches of {worst} stand {found[worst]:+.2f} standard deviations from the middle of "
        f"{terms[worst]} rounds",
        shifted(1 / math.sqrt(min(terms.values())), "standard deviations of a batch's place"),
    )  # fmt: skip
    follows = {pair: float(stats.poisson.sf(before[pair] - 1, expected[pair])) for pair in before}
    pair = min(follows, key=lambda one: follows[one])
    yield test(
        "", "no batch leaves after another more often than by chance", BOX,
        follows[pair] * len(expected),
        f"{pair[1]} follows {pair[0]} {before[pair]} times, {expected[pair]:.1f} expected",
        shifted(math.sqrt(expected[pair]), "times that one batch follows another"),
    )  # fmt: skip


def _of_delays(devices: list[WitnessedDevice], mean: float) -> Check:
    """Planned delays of one batch alone are geometric: the times of sending tell none of use."""
    delays = np.array([one for device in devices for one in device.delays])
    ticks = np.round(delays[np.isfinite(delays)] / mean * TICKS)
    lost = len(delays) - len(ticks)
    keep = 1 - 1 / TICKS
    edges = np.ceil(np.log(1 - np.arange(1, 5) / 5) / math.log(keep))
    cells = np.array([(ticks <= edge).sum() for edge in edges] + [len(ticks)])
    counts = np.diff(np.concatenate([[0], cells]))
    law = np.diff(np.concatenate([[0], 1 - keep**edges, [1]]))
    p_value = float(stats.chisquare(counts, law * max(len(ticks), 1)).pvalue) if len(ticks) else 0.0
    return test(
        "", "the delay of a batch has the declared law", BOX, 0.0 if lost else p_value,
        f"mean {ticks.mean() / TICKS if len(ticks) else 0:.2f} of the declared one over "
        f"{len(ticks)} delays" + (f", {lost} batches had none" if lost else ""),
        shifted(1 / math.sqrt(max(len(ticks), 1)), "of the mean delay"),
    )  # fmt: skip
