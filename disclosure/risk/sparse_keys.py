"""OPTA and PESA by search, where the candidate keys are too many to list.

Only the patterns compatible with a pattern can tell its candidates apart. They are joined on the
columns that both determine; most patterns are then decided by sums over groups, and the others by
branch and bound over their missing columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from disclosure.risk.domain import Combination
from disclosure.risk.fills import Work, extreme_fill, rules_given
from disclosure.risk.patterns import INCOHERENT, MISSING, Patterns, number_keys, sum_matching
from disclosure.typing import Booleans, Integers

MAX_STEPS = 1_500_000_000  # of the searches of a table: about a minute of one core
_PAIRS_AT_ONCE = 5_000_000


@dataclass(frozen=True)
class _Entries:
    """What compatible patterns say of the missing columns of some targets.

    target: (e,) positions of targets, ascending; vectors: (e, missing columns), MISSING where they
    say nothing; weights: (e,) rows. No two entries are equal in target and vector.
    """

    target: Integers
    vectors: Integers
    weights: Integers


def sparse_frequencies(patterns: Patterns, rules: list[Combination], *, largest: bool) -> Integers:
    """The frequencies of `dense_keys.dense_frequencies`, (P,), without a table of the candidate
    keys.

    Raises TableError where the search for the fills of a table takes too long.
    """
    frequencies = np.zeros(len(patterns.counts), dtype=np.int64)
    work = Work(MAX_STEPS)
    masks = list(patterns.by_mask())
    for columns, chosen in masks:
        missing = [p for p in range(len(patterns.sizes)) if p not in columns]
        frequencies[chosen] = _settled(patterns, chosen, masks, missing)
        others = [(on, sources) for on, sources in masks if set(on) & set(missing)]
        live = _is_live(patterns.codes[chosen], rules, missing)
        for part, entries in _join(patterns, chosen, others, columns, missing):
            frequencies[chosen[part]] += _added(
                patterns, chosen[part], entries, missing, rules, live[part], largest, work
            )
        frequencies[chosen[_is_incoherent(patterns.codes[chosen], rules)]] = INCOHERENT
    return np.where(frequencies < 0, INCOHERENT, frequencies)


def _settled(
    patterns: Patterns,
    chosen: Integers,
    masks: list[tuple[tuple[int, ...], Integers]],
    missing: list[int],
) -> Integers:
    """Rows compatible with every candidate: they determine none of the missing columns."""
    total = np.zeros(len(chosen), dtype=np.int64)
    for columns, sources in masks:
        if set(columns).isdisjoint(missing):
            on = list(columns)
            total += sum_matching(
                patterns.codes[sources][:, on],
                patterns.counts[sources],
                patterns.codes[chosen][:, on],
                [patterns.sizes[p] for p in on],
            )
    return total


def _agrees(codes: Integers, rule: Combination) -> Booleans:
    """(t,) True where no determined value differs from the rule's."""
    agrees = np.ones(len(codes), dtype=bool)
    for p, value in rule.items():
        agrees &= (codes[:, p] == value) | (codes[:, p] == MISSING)
    return agrees


def _is_live(codes: Integers, rules: list[Combination], missing: list[int]) -> Booleans:
    """(t,) True where some way to fill the missing columns is incoherent."""
    live = np.zeros(len(codes), dtype=bool)
    for rule in rules:
        if set(rule) & set(missing):
            live |= _agrees(codes, rule)
    return live


def _is_incoherent(codes: Integers, rules: list[Combination]) -> Booleans:
    """(t,) True where the determined values alone are incoherent."""
    found = np.zeros(len(codes), dtype=bool)
    for rule in rules:
        found |= (codes[:, list(rule)] == np.array(list(rule.values()))).all(axis=1)
    return found


def _join(
    patterns: Patterns,
    chosen: Integers,
    others: list[tuple[tuple[int, ...], Integers]],
    columns: tuple[int, ...],
    missing: list[int],
) -> Iterator[tuple[Integers, _Entries]]:
    """Yields positions in `chosen` with their entries, in parts that fit in memory."""
    ranges = [_ranges(patterns, chosen, on, sources, columns) for on, sources in others]
    pairs = np.sum([high - low for _, low, high in ranges], axis=0, initial=0)
    pairs = np.broadcast_to(pairs, len(chosen))
    for part in np.split(np.arange(len(chosen)), _cuts(np.cumsum(pairs))):
        if missing and len(part):
            yield part, _entries(patterns, ranges, part, missing)


def _cuts(cumulated: Integers) -> Integers:
    """Where to cut so that each part holds about `_PAIRS_AT_ONCE` pairs, or one target."""
    return np.flatnonzero(np.diff(cumulated // _PAIRS_AT_ONCE)) + 1


def _ranges(
    patterns: Patterns,
    chosen: Integers,
    on: tuple[int, ...],
    sources: Integers,
    columns: tuple[int, ...],
) -> tuple[Integers, Integers, Integers]:
    """Sources sorted by the columns shared, and for each target the range that agrees with it."""
    common = [p for p in on if p in columns]
    source_keys, target_keys = number_keys(
        [patterns.codes[sources][:, common], patterns.codes[chosen][:, common]],
        [patterns.sizes[p] for p in common],
    )
    order = np.argsort(source_keys, kind="stable")
    source_keys = source_keys[order]
    low = np.searchsorted(source_keys, target_keys, side="left")
    high = np.searchsorted(source_keys, target_keys, side="right")
    return sources[order], low, high


def _entries(
    patterns: Patterns,
    ranges: list[tuple[Integers, Integers, Integers]],
    part: Integers,
    missing: list[int],
) -> _Entries:
    found = [
        (np.repeat(np.arange(len(part)), high[part] - low[part]), sources[_expand(low, high, part)])
        for sources, low, high in ranges
    ]
    empty = np.zeros(0, dtype=np.int64)
    target = np.concatenate([empty, *[t for t, _ in found]])
    source = np.concatenate([empty, *[s for _, s in found]])
    vectors = patterns.codes[source][:, missing]
    table = np.column_stack([target, vectors + 1])
    (keys,) = number_keys([table], [len(part), *[patterns.sizes[p] + 1 for p in missing]])
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    weights = np.bincount(inverse.ravel(), weights=patterns.counts[source], minlength=len(first))
    return _Entries(target[first], vectors[first], np.rint(weights).astype(np.int64))


def _expand(low: Integers, high: Integers, part: Integers) -> Integers:
    """The integers of [low, high) of each target of a part, one after another."""
    lengths = high[part] - low[part]
    starts = np.repeat(low[part] - np.cumsum(lengths) + lengths, lengths)
    expanded: Integers = starts + np.arange(int(lengths.sum()))
    return expanded


def _added(
    patterns: Patterns,
    targets: Integers,
    entries: _Entries,
    missing: list[int],
    rules: list[Combination],
    live: Booleans,
    largest: bool,
    work: Work,
) -> Integers:
    """What the best (or worst) candidate of each target adds to its settled rows."""
    sizes = [patterns.sizes[p] for p in missing]
    decide = _largest if largest else _smallest
    added, decided = decide(entries, len(targets), sizes)
    open_ = np.flatnonzero(live | ~decided)
    starts = np.searchsorted(entries.target, open_, side="left")
    ends = np.searchsorted(entries.target, open_, side="right")
    for position, start, end in zip(open_.tolist(), starts, ends, strict=True):
        given = rules_given(rules, patterns.codes[targets[position]], missing)
        vectors, weights = entries.vectors[start:end], entries.weights[start:end]
        found = extreme_fill(vectors, weights, sizes, given, work, largest=largest)
        added[position] = -(2**62) if found is None else found
    return added


def _largest(entries: _Entries, targets: int, sizes: list[int]) -> tuple[Integers, Booleans]:
    """A single missing column, or a single entry, is decided by the heaviest entry."""
    added = np.zeros(targets, dtype=np.int64)
    np.maximum.at(added, entries.target, entries.weights)
    number = np.bincount(entries.target, minlength=targets)
    return added, (number <= 1) | (len(sizes) == 1)


def _smallest(entries: _Entries, targets: int, sizes: list[int]) -> tuple[Integers, Booleans]:
    """Nothing is added where each missing column has a modality that no compatible row shows."""
    free = np.ones(targets, dtype=bool)
    for index, size in enumerate(sizes):
        seen = entries.vectors[:, index] != MISSING
        pairs = entries.target[seen] * size + entries.vectors[seen, index]
        free &= np.bincount(np.unique(pairs) // size, minlength=targets) < size
    added = np.zeros(targets, dtype=np.int64)
    if len(sizes) == 1:
        least = np.full(targets, np.iinfo(np.int64).max)
        np.minimum.at(least, entries.target, entries.weights)
        added[~free] = least[~free]
        return added, np.ones(targets, dtype=bool)
    return added, free
