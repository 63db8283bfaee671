"""The likelihood of memoised reports, one in each slot and period, by what is known of lives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from privacy_audit.lives import NONE, Lives
from privacy_audit.location_attacks import draw_permanent
from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.params import RapporParams

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Knowledge = Literal["presence", "changes", "life"]
KNOWN: tuple[Knowledge, ...] = get_args(Knowledge)

CHANGE_RATES = 0.03, 0.2, 0.7  # of a cell from period to period; which one is not known
DIGITS = 8  # of a score: what says the same must tie
_RESCALED = 16  # periods after which a likelihood is taken out of its product
_LEAST = 1e-300
_LEFT_OUT = np.iinfo(np.int64).min


def chance_of_other(lives: Lives, answers: Integers, known: Knowledge) -> Floats:
    """How likely each answer is `other`, by what is known of each device: (n, S, T).

    Who knows the changes knows that before the first there was no data, and that a change is data;
    between them the answers of all devices are as likely `other`.
    """
    absent: Floats = np.asarray(answers == NONE, dtype=np.float64)
    if known == "presence":
        return absent
    changes = lives.changes[..., : answers.shape[2]]
    unknown = np.cumsum(changes, axis=2) == 0
    between = ~(unknown | changes)
    number = between.sum(axis=0)
    average = np.where(between, absent, 0.0).sum(axis=0) / np.maximum(number, 1)
    return np.asarray(np.where(between, average, unknown))


def stands_for_other(params: RapporParams, hashed: Integers) -> int:
    """What stands for `other` among what is memoised: its symbol, or the value after the cells."""
    return int(hashed[0, -1]) if params.scheme.symbols else hashed.shape[1] - 1


def capped(own: Integers, cap: int, other: int) -> Integers:
    """Replace what a device memoises past its cap by `other`, which is one of them: (n, S, T)."""
    result = own.copy()
    for device in result:
        known = {other}
        for period in range(device.shape[1]):
            for slot in range(device.shape[0]):
                value = int(device[slot, period])
                if value in known or len(known) < cap:
                    known.add(value)
                else:
                    device[slot, period] = other
    return result


def memoised_reports(
    params: RapporParams, own: Integers, hashed: Integers, rng: np.random.Generator
) -> Integers:
    """Draw what devices show in each slot and period: (targets, S, T, k), of 0 and 1."""
    rows, k = own.reshape(len(own), -1), params.num_bits
    order = np.arange(k)[None] if params.scheme.symbols else hashed
    shown = np.zeros((*rows.shape, k), dtype=np.int64)
    p2, q2 = (x / PROBABILITY_SCALE for x in (params.mechanism.p2, params.mechanism.q2))
    for device, row in enumerate(rows):
        values, index = np.unique(row, return_inverse=True)
        permanent = draw_permanent(order[:, values], params, rng)[index]
        if params.scheme.symbols:
            kept = rng.random(len(row)) < p2
            away = rng.integers(1, k, size=len(row))
            symbol = permanent.argmax(axis=1)
            shown[device, np.arange(len(row)), np.where(kept, symbol, (symbol + away) % k)] = 1
        else:
            chance = np.where(permanent == 1, p2, q2)
            shown[device] = rng.random(chance.shape) < chance
    return shown.reshape(*own.shape, k)


def memoised_scores(
    params: RapporParams,
    hold: int,
    shown: Integers,
    lives: Lives,
    own: Integers,
    hashed: Integers,
    known: Knowledge,
    periods: int,
) -> Floats:
    """Log likelihood of each stream by each device: (targets, n)."""
    seen = shown[:, :, :periods]
    if known == "life":
        return by_groups(params, seen, own[..., :periods], _named(params, hashed))
    answers = lives.held(hold)[..., :periods]
    changes = lives.changes[..., :periods]
    if params.scheme.symbols and params.num_bits == 2:
        share = float(lives.shares[hashed[0, :-1] == 1].sum())
        present = lives.present[..., :periods]
        absent = chance_of_other(lives, answers, known)
        if known == "presence":
            may = present if hold else np.ones_like(present)
            turns = np.stack([rate * may for rate in CHANGE_RATES])
        else:
            turns = changes[None].astype(np.float64)
        return by_recursion(params, seen, absent, turns, share, int(hashed[0, -1]))
    slots, named = np.arange(answers.shape[1])[None, :, None], _named(params, hashed)
    if known == "changes":
        groups = -1 - (np.cumsum(changes, axis=2) * slots.size + slots)
        return by_groups(params, seen, groups, named)
    other, away = stands_for_other(params, hashed), answers == NONE
    one_cell = by_groups(params, seen, np.where(away, other, -1 - slots), named)
    anew = by_groups(params, seen, np.where(away, other, _LEFT_OUT), named)
    anew += _alone(params, seen) @ (~away).reshape(len(away), -1).T
    return np.asarray(np.round(np.logaddexp(one_cell, anew), DIGITS))


@dataclass(frozen=True)
class Dates:
    """What the dates of reports show, (n, T). used: in which periods the app was.
    due, came: which reports were due, and of these which the collector got."""

    used: Bools
    due: Bools
    came: Bools


def same_days(dates: Dates, targets: int, periods: int) -> Floats:
    """0 for each device that was used in the same periods as a target, else -inf: (targets, n)."""
    used = dates.used[:, :periods].astype(np.float64)
    seen = used[:targets]
    return np.where((1 - seen) @ used.T + seen @ (1 - used).T > 0, -np.inf, 0.0)


def dated_scores(
    params: RapporParams,
    shown: Integers,
    lives: Lives,
    own: Integers,
    hashed: Integers,
    dates: Dates,
    known: Knowledge,
    periods: int,
) -> Floats:
    """Log likelihood of each stream by each device, where dates show the use: (targets, n).

    With presence by the dates alone. With changes a lower bound: each is in a period of use.
    """
    if known == "changes":
        changed = np.any(lives.changes[..., :periods], axis=1)
        silent = ~dates.used[: len(shown), :periods]
        return np.where(silent.astype(np.float64) @ changed.T > 0, -np.inf, 0.0)
    score = same_days(dates, len(shown), periods)
    if known == "life":
        near = np.nonzero((score == 0).any(axis=0))[0]  # few others were used on the same days
        came = dates.came[:, None, :periods]
        groups = np.where(came, own[..., :periods], _LEFT_OUT)[near]
        score[:, near] += by_groups(params, shown[:, :, :periods], groups, _named(params, hashed))
    return score


def _named(params: RapporParams, hashed: Integers) -> Integers:
    """The bits of each value of a filter, or each symbol by itself: (h, values)."""
    return np.arange(params.num_bits)[None] if params.scheme.symbols else hashed


def _alone(params: RapporParams, seen: Integers) -> Floats:
    """Log likelihood of each report (targets, S * T) as the only one of an unknown value."""
    rows = seen.reshape(-1, seen.shape[-1]).astype(np.float64)
    return _of_group(params, rows, 1, None).reshape(len(seen), -1)


def by_groups(params: RapporParams, seen: Integers, groups: Integers, named: Integers) -> Floats:
    """Slots and periods of one group show one permanent answer: independent, known or not.

    groups: (n, S, T), an index into `named`, or below 0: unknown, one for each number;
        `_LEFT_OUT` is of no group.
    """
    targets, k = len(seen), params.num_bits
    flat = seen.reshape(targets, -1, k).transpose(0, 2, 1).reshape(targets * k, -1)
    flat = flat.astype(np.float64)
    score = np.zeros((targets, len(groups)))
    for device, row in enumerate(groups.reshape(len(groups), -1)):
        labels, index, sizes = np.unique(row, return_inverse=True, return_counts=True)
        counts = (flat @ np.eye(len(labels))[index]).reshape(targets, k, len(labels))
        score[:, device] = sum(
            _of_group(params, counts[..., i], int(size), named[:, label] if label >= 0 else None)
            for i, (label, size) in enumerate(zip(labels, sizes, strict=True))
            if label != _LEFT_OUT
        )
    return np.round(score, DIGITS)


def _of_group(
    params: RapporParams, counts: Floats, size: int, positions: Integers | None
) -> Floats:
    """Log likelihood of the counts (targets, k) of a group of so many reports: (targets,)."""
    mechanism, k = params.mechanism, params.num_bits
    p1, q1, p2, q2 = (
        x / PROBABILITY_SCALE for x in (mechanism.p1, mechanism.q1, mechanism.p2, mechanism.q2)
    )
    if params.scheme.symbols:
        prior = np.full(k, 1 / k) if positions is None else np.full(k, (1 - p1) / (k - 1))
        if positions is not None:
            prior[positions[0]] = p1
        logs = counts * math.log(p2) + (size - counts) * math.log(max(q2, _LEAST))
        return _log_mean(logs, prior)
    ones = 1 - (1 - 1 / k) ** params.num_hashes
    chance = np.full(k, p1 * ones + q1 * (1 - ones) if positions is None else q1)
    if positions is not None:
        chance[positions] = p1
    hit, miss = (
        counts * math.log(max(x, _LEAST)) + (size - counts) * math.log(max(1 - x, _LEAST))
        for x in (p2, q2)
    )
    score: Floats = np.logaddexp(np.log(chance) + hit, np.log1p(-chance) + miss).sum(axis=1)
    return score


def _log_mean(logs: Floats, weights: Floats) -> Floats:
    """ln sum_i w_i e^logs_i over the last axis."""
    top = logs.max(axis=-1, keepdims=True)
    return np.asarray(np.log((np.exp(logs - top) * weights).sum(axis=-1)) + top[..., 0])


def by_recursion(
    params: RapporParams, seen: Integers, other: Floats, turns: Floats, share: float, none: int
) -> Floats:
    """Two symbols: the symbol of the cell is hidden, and may be drawn anew from period to period.

    Args:
        params: of two symbols.
        seen: (targets, S, T, 2).
        other: how likely each answer is `other`, by device: (n, S, T).
        turns: how likely the symbol is drawn anew before each period, by rate: (R, n, S, T).
        share: of the crowd whose cell has symbol 1.
        none: the symbol of `other`.
    """
    keep = params.mechanism.p1 / PROBABILITY_SCALE
    stay = params.mechanism.p2 / PROBABILITY_SCALE
    crowd = np.array([1 - share, share])
    lie = max(1 - stay, _LEAST)
    shown = np.array([[stay, lie], [lie, stay]])  # by permanent answer and symbol shown
    table = np.stack([shown, shown[::-1]], axis=1)  # by symbol; kept or exchanged; symbol shown
    away = np.moveaxis(other, 0, 2)[:, :, None, None, None]  # (S, T, 1, 1, 1, n)
    emitted = (1 - away) * table.transpose(2, 0, 1)[..., None]  # (S, T, shown, symbol, kept, n)
    emitted += away * table[none].T[:, None, :, None]
    new = np.moveaxis(turns, (0, 1), (2, 3))  # (S, T, R, n)
    drawn = new[:, :, None, None] * crowd[:, None, None, None]  # (S, T, symbol, 1, R, n)
    rates, people = turns.shape[:2]
    score = np.empty((len(seen), people))
    for target, stream in enumerate(seen[..., 1]):
        logs = np.zeros((2, rates, people))  # where permanent answers differ: kept, exchanged
        alike = [math.log(keep * (1 - keep)) + float(np.log(row[stream]).sum()) for row in shown]
        for slot, row in enumerate(stream.tolist()):
            alpha = np.broadcast_to(crowd[:, None, None, None], (2, 2, rates, people)).copy()
            for period, symbol in enumerate(row):
                total = alpha.sum(axis=0)
                alpha *= 1 - new[slot, period]
                alpha += drawn[slot, period] * total
                alpha *= emitted[slot, period, symbol][:, :, None]
                if period % _RESCALED == _RESCALED - 1:
                    size = np.maximum(alpha.sum(axis=0), _LEAST)
                    logs += np.log(size)
                    alpha /= size
            logs += np.log(np.maximum(alpha.sum(axis=0), _LEAST))
        apart = _log_mean(logs.transpose(0, 2, 1), np.full(rates, 1 / rates))  # (2, people)
        both = [np.full(people, one) for one in alike]
        weighed = apart + np.log([[keep**2], [(1 - keep) ** 2]])
        score[target] = np.logaddexp.reduce([weighed[0], weighed[1], *both], axis=0)
    return np.round(score, DIGITS)
