"""The trials of a scenario, and three attacks on these trials.

The worlds are chosen by a fair coin, and secrets are fresh. The attacks are the declared likelihood
ratio, averaging, and a classifier.

The likelihood ratio states its own certainty, so its threshold comes from the scores of all trials,
without their worlds, and it is evaluated on all trials. Its bound remains valid because, given the
reports, the claim bounds the probability of a right guess. In addition, the three attacks are tuned
on one part of the trials with their worlds, and evaluated on the other part. That detects clients
that do not behave as declared. (The classifier is the idea of DP-Sniper, Bichsel et al. 2021.) Each
of the two evaluations has half of the level.
"""

import math
import os
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import LogisticRegression

from privacy_audit.black_box.bounds import claim_p_value, detectable, lower_bound
from privacy_audit.black_box.noise_sums import NoiseSums, noise_sums
from privacy_audit.black_box.observations import AVERAGE, LIKELIHOOD, features, observe
from privacy_audit.black_box.program_client import ClientSource, Event, Life
from privacy_audit.black_box.scenarios import Scenario
from privacy_audit.devices import Floats, Integers

Side = Literal["both", "first", "second"]
ATTACKS = ("likelihood ratio", "averaging", "classifier")
SIDES: tuple[Side, ...] = ("both", "first", "second")
THRESHOLDS = 400
REPORTS_A_CHUNK = 20_000
MAX_TRAINING = 60_000  # the maximum number of trials to which the classifier is fitted
MIN_RIGHT = 20  # the minimum number of right guesses in the training part; rarer events are noise


@dataclass(frozen=True)
class Attack:
    """An attack that was chosen on the training trials."""

    name: str  # one of ATTACKS
    side: Side  # the worlds that the attack may guess; otherwise it abstains
    threshold: float  # the threshold for the absolute score


@dataclass(frozen=True)
class AttackResult:
    """The outcome of an attack on its evaluation trials."""

    attack: Attack
    trials: int  # the number of trials
    guesses: int  # the number of guesses
    right: int  # the number of right guesses
    bound: float  # the lower bound on epsilon in nats
    reached: float  # the point estimate of epsilon: the log odds of right guesses
    p_value: float  # the p-value of the claim
    # The epsilon that this many guesses could distinguish from the claim with probability `POWER`;
    # infinite if no number of right guesses could.
    needed: float


def attack(
    table: NDArray[np.float32], world: Integers, claim: float, level: float, training: float
) -> AttackResult:
    """Return the better of an attack without training and an attack chosen on training trials.

    `table` has shape (n, features). `world` has shape (n,), 0 or 1 by a fair coin. `training` is a
    fraction of the trials.
    """
    cut = round(len(table) * training)
    scores = _scores(table, world, cut)
    ratio = {ATTACKS[0]: scores[ATTACKS[0]]}  # log odds, if the client behaves as declared
    odds = {ATTACKS[0]: 1 / (1 + np.exp(-np.abs(ratio[ATTACKS[0]])))}
    declared = _chosen(ratio, odds, level / 2, 1.0, 0)
    first = {name: score[:cut] for name, score in scores.items()}
    correct = {name: (score > 0) == (world[:cut] == 0) for name, score in first.items()}
    trained = _chosen(first, correct, level / 2, (len(world) - cut) / max(cut, 1), MIN_RIGHT)
    results = [
        _judged(declared, scores[declared.name], world, claim, level),
        _judged(trained, scores[trained.name][cut:], world[cut:], claim, level),
    ]
    best = min(results, key=lambda item: (item.p_value, -item.bound))
    if best.p_value >= level:
        best = max(results, key=lambda item: item.bound)
    return best


def _chosen(
    scores: dict[str, Floats],
    correct: dict[str, NDArray[Any]],
    level: float,
    scale: float,
    min_right: int,
) -> Attack:
    """Return the attack, side and threshold that should prove the highest epsilon.

    Args:
        scores: The scores by attack.
        correct: By attack, whether (or with which probability) each trial's guess is right.
        level: The significance level of the bound on epsilon.
        scale: The number of evaluation trials per training trial.
        min_right: The minimum number of right guesses for a threshold to be considered.
    """
    best, chosen = -1.0, Attack(ATTACKS[0], "both", 0.0)
    for name, score in scores.items():
        for side in SIDES:
            mask = _guessable(score, side)
            size = np.abs(score[mask])
            order = np.argsort(-size, kind="stable")
            size, right = size[order], np.cumsum(correct[name][mask][order])
            ends = _ends(size)
            ends = ends[right[ends] >= min_right]
            if not len(ends):
                continue
            good, total = right[ends] * scale, (ends + 1) * scale
            share = np.asarray(stats.beta.ppf(level, good, total - good + 1))
            place = int(np.argmax(share))
            if share[place] > best:
                best, chosen = float(share[place]), Attack(name, side, float(size[ends[place]]))
    return chosen


def _judged(
    chosen: Attack, score: Floats, world: Integers, claim: float, level: float
) -> AttackResult:
    """Evaluate a chosen attack at half of the level, with a doubled p-value: one of two tests."""
    mask = _guessable(score, chosen.side) & (np.abs(score) >= chosen.threshold)
    guesses, right = int(mask.sum()), int(((score > 0) == (world == 0))[mask].sum())
    reached = max(0.0, math.log((right + 0.5) / (guesses - right + 0.5))) if guesses else 0.0
    return AttackResult(
        chosen, len(world), guesses, right, lower_bound(right, guesses, level / 2), reached,
        min(1.0, 2 * claim_p_value(right, guesses, claim)), detectable(guesses, claim, level / 2),
    )  # fmt: skip


def _scores(table: NDArray[np.float32], world: Integers, cut: int) -> dict[str, Floats]:
    """Return each attack's scores, positive for world 0; the trials before `cut` are training."""
    scores = {
        ATTACKS[0]: np.asarray(table[:, LIKELIHOOD], dtype=np.float64),
        ATTACKS[1]: np.asarray(table[:, AVERAGE], dtype=np.float64),
    }
    first = slice(0, min(cut, MAX_TRAINING))
    center, spread = table[first].mean(axis=0), table[first].std(axis=0)
    scaled = (table - center) / np.where(spread > 0, spread, 1)
    if len(set(world[first].tolist())) == 2:
        model = LogisticRegression(C=1.0, max_iter=200).fit(scaled[first], world[first])
        scores[ATTACKS[2]] = -np.round(model.decision_function(scaled), 6)
    return scores


def _guessable(score: Floats, side: Side) -> NDArray[np.bool_]:
    if side == "both":
        return np.asarray(score != 0)
    return np.asarray(score > 0 if side == "first" else score < 0)


def _ends(size: Floats) -> Integers:
    ends = np.flatnonzero(np.append(size[:-1] != size[1:], True)) if len(size) else np.arange(0)
    if len(ends) > THRESHOLDS:
        ends = ends[np.unique(np.geomspace(1, len(ends), THRESHOLDS).astype(int) - 1)]
    return ends


class Trials(NamedTuple):
    """The features and noise sums of n trials, which replace their reports."""

    features: NDArray[np.float32]  # shape (n, number)
    world: Integers  # shape (n,)
    wrong: int  # the number of trials with an unexpected number of reports or several cohorts
    noise: NoiseSums | None


def run_chunk(source: ClientSource, scenario: Scenario, number: int) -> Trials:
    """Run a number of trials of a scenario, with fresh randomness instead of a seed.

    Raises:
        AuditedClientError: The client fails.
    """
    file = source.file()
    world = np.frombuffer(os.urandom(number), dtype=np.uint8).astype(np.int64) & 1
    worlds = [
        tuple(Event(scenario.metric, day, value) for day, value in steps)
        for steps in scenario.worlds
    ]
    lives = [Life(os.urandom(32), worlds[chosen]) for chosen in world.tolist()]
    with source.started() as client:
        if scenario.part == "encoder":
            reports = client.encode(lives, scenario.together)
        else:
            reports = client.record(lives)
    observed = observe(file, scenario, world, reports)
    params = file.metrics[scenario.metric].params
    wrong = int((observed.number != scenario.expected).sum()) + observed.moved
    sums = noise_sums(params, observed) if scenario.noise else None
    return Trials(features(params, observed), world, wrong, sums)


def chunks(scenario: Scenario, trials: int) -> list[int]:
    """Return sizes of chunks that have about `REPORTS_A_CHUNK` reports each."""
    wide = max(1, scenario.num_bits // 128)
    size = max(50, REPORTS_A_CHUNK // max(len(scenario.worlds[0]), 1) // wide)
    whole, rest = divmod(trials, size)
    return [size] * whole + [rest] * (rest > 0)


def joined(parts: list[Trials]) -> Trials:
    """Join the chunks of one scenario's trials."""
    sums = [part.noise for part in parts if part.noise is not None]
    return Trials(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.world for part in parts]),
        sum(part.wrong for part in parts),
        sum(sums[1:], sums[0]) if sums else None,
    )
