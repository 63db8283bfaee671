"""Three attacks on one scenario, chosen and tuned on one part of the trials, judged on the other.

The declared likelihood ratio; the average of what the two values' bits show; a logistic classifier
on all that is seen (the idea of DP-Sniper, Bichsel et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import LogisticRegression

from privacy_audit.black_box.bounds import (
    claim_p_value,
    detectable,
    lower_bound,
    point_estimate,
)
from privacy_audit.black_box.observations import AVERAGE, LIKELIHOOD, Floats, Integers

Side = Literal["both", "first", "second"]
ATTACKS = ("likelihood ratio", "averaging", "classifier")
SIDES: tuple[Side, ...] = ("both", "first", "second")
THRESHOLDS = 400
MOST_TRAINING = 60_000  # trials that the classifier is fitted on
FEWEST = 20  # right guesses of the training part: a rarer event is noise


@dataclass(frozen=True)
class Attack:
    """An attack as it was chosen.

    name: one of ATTACKS.  side: which world is ever guessed.  threshold: of the score's size.
    """

    name: str
    side: Side
    threshold: float


@dataclass(frozen=True)
class AttackResult:
    """What the chosen attack reached on the part that was kept for judging.

    trials: all.  guesses, right: of that part.  bound: lower, nats.  reached: point estimate.
    p_value: of the claim.  excess: nats above what was reached that would have been caught 9 times
        in 10.
    """

    attack: Attack
    trials: int
    guesses: int
    right: int
    bound: float
    reached: float
    p_value: float
    excess: float


def attack(
    table: NDArray[np.float32], world: Integers, claim: float, level: float, training: float
) -> AttackResult:
    """Choose an attack on the first part of the trials and judge it on the rest.

    table: (n, features).  world: (n,) 0 or 1, drawn by a fair coin.  training: share of trials.
    """
    cut = round(len(table) * training)
    scores = _scores(table, world, cut)
    scale = (len(table) - cut) / max(cut, 1)
    best, chosen = -1.0, Attack(ATTACKS[0], "both", 0.0)
    for name, score in scores.items():
        for side in SIDES:
            value, threshold = _best_threshold(score[:cut], world[:cut], side, level, scale)
            if value > best:
                best, chosen = value, Attack(name, side, threshold)
    guesses, right = _guesses(scores[chosen.name][cut:], world[cut:], chosen.side, chosen.threshold)
    reached = point_estimate(right, guesses)
    needed = detectable(guesses, claim, level)
    return AttackResult(
        chosen, len(table), guesses, right, lower_bound(right, guesses, level), reached,
        claim_p_value(right, guesses, claim), max(0.0, needed - min(reached, claim)),
    )  # fmt: skip


def _scores(table: NDArray[np.float32], world: Integers, cut: int) -> dict[str, Floats]:
    """A score for each attack, above 0 for world 0; the classifier is fitted on the first part."""
    found = {
        ATTACKS[0]: np.asarray(table[:, LIKELIHOOD], dtype=np.float64),
        ATTACKS[1]: np.asarray(table[:, AVERAGE], dtype=np.float64),
    }
    first = slice(0, min(cut, MOST_TRAINING))
    centre, spread = table[first].mean(axis=0), table[first].std(axis=0)
    scaled = (table - centre) / np.where(spread > 0, spread, 1)
    if len(set(world[first].tolist())) == 2:
        model = LogisticRegression(C=1.0, max_iter=200).fit(scaled[first], world[first])
        found[ATTACKS[2]] = -np.round(model.decision_function(scaled), 6)
    return found


def _guesses(score: Floats, world: Integers, side: Side, threshold: float) -> tuple[int, int]:
    """How many guesses are made, and how many are right."""
    first = (score >= threshold) & (score > 0) if side != "second" else np.zeros(len(score), bool)
    second = (score <= -threshold) & (score < 0) if side != "first" else np.zeros(len(score), bool)
    right = int((first & (world == 0)).sum() + (second & (world == 1)).sum())
    return int(first.sum() + second.sum()), right


def _best_threshold(
    score: Floats, world: Integers, side: Side, level: float, scale: float
) -> tuple[float, float]:
    """The bound to be expected on the other part, `scale` times as large, and its threshold."""
    guess_first = score > 0
    taken = {"both": score != 0, "first": guess_first, "second": score < 0}[side]
    size = np.abs(score[taken])
    if not len(size):
        return -1.0, 0.0
    correct = (guess_first[taken]) == (world[taken] == 0)
    order = np.argsort(-size, kind="stable")
    size, right = size[order], np.cumsum(correct[order])
    ends = np.flatnonzero(np.append(size[:-1] != size[1:], True))  # ties stand together
    if len(ends) > THRESHOLDS:
        ends = ends[np.unique(np.geomspace(1, len(ends), THRESHOLDS).astype(int) - 1)]
    ends = ends[right[ends] >= FEWEST]
    if not len(ends):
        return -1.0, float(size[0])
    good, made = right[ends] * scale, (ends + 1) * scale
    share = np.asarray(stats.beta.ppf(level, good, made - good + 1))
    best = int(np.argmax(share))
    return float(share[best]), float(size[ends[best]])
