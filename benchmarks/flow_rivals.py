"""Other methods for learning a matrix of flows, each with the same lifetime epsilon.

The rivals report symbols of each device's own hash (optimized local hashing, Wang et al. 2017). The
supports (matching reports) of different classes are drawn independently and exactly."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from decoder.flows.decoding import decode_flows
from decoder.numerics.optimization import project_simplex
from decoder.typing import Floats
from rappor_core.metrics.flow import DISTANCE, HOME, WORK, Flow
from rappor_core.metrics.metric import Metric
from simulations.flows import draw_flows


@dataclass(frozen=True)
class FlowDraw:
    """A setting to draw: `devices` whose flows are `matrix` (P,) answer at lifetime `epsilon`."""

    metric: Metric
    matrix: Floats
    devices: int
    rng: np.random.Generator

    @property
    def flow(self) -> Flow:
        """Return the settings of the metric."""
        details: Flow = self.metric.details
        return details

    @property
    def epsilon(self) -> float:
        """Return the lifetime epsilon of a device, in nats."""
        return self.metric.params.epsilon_one


def all_pairs(draw: FlowDraw) -> Floats:
    """Estimate from each device's pair, with unbiased shares projected onto the simplex."""
    return project_simplex(_local_hashing(draw.matrix, draw.devices, draw.epsilon, draw.rng))


def two_linked_answers(draw: FlowDraw) -> Floats:
    """Estimate from both cells of each device, sent with half of epsilon each.

    Joint shares are unbiased products of supports, projected onto the simplex."""
    sides = draw.flow.num_sides
    matrix = draw.matrix.reshape(sides, sides)
    origins, destinations = matrix.sum(axis=1, keepdims=True), matrix.sum(axis=0, keepdims=True)
    symbols = _symbols(draw.epsilon / 2)
    keep = math.exp(draw.epsilon / 2) / (math.exp(draw.epsilon / 2) + symbols - 1)
    hit = 1 / symbols
    both = np.zeros((2, 2, sides, sides))  # Devices by support of the origin and the destination
    groups = (
        (keep, keep, matrix),
        (keep, hit, origins - matrix),
        (hit, keep, destinations - matrix),
        (hit, hit, 1 - origins - destinations + matrix),
    )
    parts = [np.broadcast_to(part, matrix.shape) for *_, part in groups]
    shares = np.clip(np.stack(parts, -1), 0, 1)
    numbers = draw.rng.multinomial(draw.devices, shares / shares.sum(axis=-1, keepdims=True))
    for group, (first, second, _) in enumerate(groups):
        chances = [first * second, first * (1 - second), (1 - first) * second,
                   (1 - first) * (1 - second)]  # fmt: skip
        drawn = draw.rng.multinomial(numbers[..., group], chances)
        both += np.moveaxis(drawn, -1, 0).reshape(2, 2, sides, sides)
    weights = np.array([1 - hit, -hit]) / (keep - hit)
    estimate = np.einsum("ab,abod->od", np.outer(weights, weights), both) / draw.devices
    return project_simplex(estimate.ravel())


def gravity_of_margins(draw: FlowDraw) -> Floats:
    """Estimate by the gravity model alone, from each device's night cell, work cell or distance."""
    questions = frozenset((HOME, WORK, DISTANCE))
    counts = draw_flows(draw.metric, draw.matrix, draw.devices, draw.rng, questions=questions)
    return decode_flows(counts).gravity


def start_end_and_steps(draw: FlowDraw) -> Floats:
    """Estimate by LDPTrace's Markov chain (Du et al. 2023) of starts, ends and steps.

    This version is kinder than the original, where epsilon is split over all steps of a trajectory:
    a device answers one question with all of it (start, end, or a random step to a neighboring
    cell), and the mean number of steps is known. Walks are straight lines of steps between cells;
    pairs in which a side is not a cell have the true flows."""
    flow, cells = draw.flow, len(draw.flow.cells)
    sides = flow.num_sides
    matrix = draw.matrix.reshape(sides, sides)
    inside = matrix[:cells, :cells]
    steps = _steps(flow, inside)
    walked = steps.sum()
    links = np.argwhere(_neighbors(flow))
    third = draw.devices // 3
    sums = [
        np.clip(_local_hashing(part, third, draw.epsilon, draw.rng), 0, None)
        for part in (inside.sum(axis=1), inside.sum(axis=0), steps[tuple(links.T)] / walked)
    ]
    moves = np.zeros_like(steps)
    moves[tuple(links.T)] = sums[2] * walked
    visited = moves.sum(axis=1) + sums[1]
    chances = moves / np.maximum(visited, 1e-12)[:, None]
    visits = np.linalg.solve(np.eye(cells) * (1 + 1e-9) - chances.T, np.diag(sums[0]))
    guess = matrix.copy()
    pairs = visits.T * (sums[1] / np.maximum(visited, 1e-12))[None, :]
    guess[:cells, :cells] = inside.sum() * pairs / max(pairs.sum(), 1e-12)
    return guess.ravel()


RIVALS: dict[str, Callable[[FlowDraw], Floats]] = {
    "all pairs, simplex": all_pairs,
    "two linked answers, simplex": two_linked_answers,
    "gravity of margins and bands": gravity_of_margins,
    "start, end and steps": start_end_and_steps,
}


def _symbols(epsilon: float) -> int:
    return max(2, round(math.exp(epsilon) + 1))


def _local_hashing(
    shares: Floats, devices: int, epsilon: float, rng: np.random.Generator
) -> Floats:
    symbols = _symbols(epsilon)
    keep = math.exp(epsilon) / (math.exp(epsilon) + symbols - 1)
    holders = rng.binomial(devices, np.clip(shares, 0, 1))
    supports = rng.binomial(holders, keep) + rng.binomial(devices - holders, 1 / symbols)
    return np.asarray((supports / devices - 1 / symbols) / (keep - 1 / symbols))


def _neighbors(flow: Flow) -> Floats:
    """Return flags (K, K) of cells that share a side or a corner: the eight nearest centers."""
    centers = np.array(flow.centers)
    apart = np.abs(centers[:, None] - centers[None])
    size = np.array([np.min(apart[..., axis][apart[..., axis] > 1e-9]) for axis in (0, 1)])
    near: Floats = (np.rint(apart / size) <= 1).all(axis=-1) & ~np.eye(len(centers), dtype=bool)
    return near


def _steps(flow: Flow, inside: Floats) -> Floats:
    """Return a person's mean steps from a cell to a neighbor, (K, K), on straight walks."""
    near = _neighbors(flow)
    centers = np.array(flow.centers)
    apart = ((centers[:, None] - centers[None]) ** 2).sum(axis=-1)
    steps = np.zeros_like(inside)
    for destination in range(len(centers)):
        ahead = np.argmin(np.where(near, apart[:, destination][None, :], np.inf), axis=1)
        for origin in range(len(centers)):
            at = origin
            while at != destination:
                steps[at, ahead[at]] += inside[origin, destination]
                at = int(ahead[at])
    return steps
