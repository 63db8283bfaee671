"""Maps of many windows of one slot from a field over space and time, in one linear step.

The windows share one map; each has its own shares of reserved values, free, and small deviations
d_t of the log shares, cov(d_s, d_t) = tau^2 R_st S^-1, R_st = phi^|s - t|. The deviations are
posterior means of the model that is linear at the shared map (a best linear unbiased prediction),
so there is one answer and no other summit; their strength is learnt from contrasts between windows
(`space_time_model`). What is said of changes of single cells is found apart (`cell_changes`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from decoder.density.field_prior import Graph, Prior, factor
from decoder.density.linear_system import Misfit, WindowReadings, even_map, with_reserved
from decoder.density.space_time_model import (
    Deviations,
    Modes,
    Released,
    Strengths,
    contrasts_of,
    deviations_of,
    learn_strengths,
    modes_of,
    patterns,
    released_changes,
)
from decoder.typing import Floats

_MIN_PART = 1e-3  # of the shared map: what a cell keeps where a change takes all


@dataclass(frozen=True)
class SpaceTimeField:
    """Maps of T windows. shares: (T, n), r reserved values the last, positive, each of sum 1.

    shared_freedom, own_freedom: (T,), how many parameters the shared map and each one's deviations
    have really: what they fit of a window's noise, nats.
    """

    shares: Floats
    shared_freedom: Floats
    own_freedom: Floats
    deviations: Deviations
    graph: Graph
    strengths: Strengths
    changes: Released


def fit_space_time(
    windows: WindowReadings,
    shared: Floats,
    precision: Any,
    laplacian: Any | None,
    most_repeated: float,
    *,
    reserved: int,
    independent: bool = False,
) -> SpaceTimeField:
    """Fit the maps of T >= 2 windows as deviations from the shared map of all of them.

    Args:
        windows: the readings of each, all with the same rows (those without reports have
            precision 0).
        shared: the map (n,) of the sum of the windows.
        precision: of its log shares in its prior, (n, n), sparse.
        laplacian: of the neighbors (n, n), None for no graph.
        most_repeated: see `most_repeated_noise`.
        reserved: r, how many of the last shares are of reserved values.
        independent: deviations of one window say nothing of the next (phi = 0).
    """
    size = len(shared) - reserved
    cells = shared[:size] / shared[:size].sum()
    apart = _reserved(windows, np.tile(cells, (len(windows), 1)), reserved)
    deviations = deviations_of(windows, cells, apart)
    scale, inside = deviations.scale, 1 - apart.sum(axis=1)
    fits: list[tuple[Strengths, Modes, Graph]] = []
    for graph in ("alike", "neighbors") if laplacian is not None else ("alike",):
        near = None if laplacian is None else laplacian[:size, :size]
        modes = modes_of(deviations, Prior.of(graph, near, size).structure)
        learnt = learn_strengths(modes, scale, inside, most_repeated, independent=independent)
        fits.append((learnt, modes, graph))
    strengths, modes, graph = max(fits, key=lambda fit: fit[0].height)
    contrasts = contrasts_of(scale, inside, strengths)
    variances = 1 + strengths.variance * np.outer(modes.information, contrasts.ratios)
    data = (modes.data / deviations.scale) @ contrasts.turn.T
    changes = released_changes(modes, contrasts, data, variances)
    amounts = np.sqrt(modes.information)[:, None] * (changes.rest / variances @ contrasts.back.T)
    means = strengths.variance * (modes.basis @ amounts)  # up to a map that all windows share
    reports = np.array([sum(float(level.reports.sum()) for level in window) for window in windows])
    weights = reports * inside / (reports @ inside)
    maps = _maps(cells, means - (means @ weights)[:, None], changes, weights)
    pairs = zip(maps, _reserved(windows, maps, reserved), strict=True)
    shares = np.stack([with_reserved(np.append(window_map, own), own) for window_map, own in pairs])
    each = strengths.variance * (modes.information @ (1 / variances))
    return SpaceTimeField(
        shares,
        _shared_freedom(windows, shared, precision) * weights,
        np.einsum("tj,j,jt->t", contrasts.back, each, contrasts.turn),
        deviations,
        graph,
        strengths,
        changes,
    )


def most_repeated_noise(windows: WindowReadings, shared: Floats) -> float:
    """Bound of the part of a row's variance that devices which stay put repeat in every window: of
    what they draw once for life, and of who is in a cohort. shared: (n,)."""
    parts = []
    for reading in windows[0]:
        bit = float(np.clip(np.mean(reading.design @ shared), 0.0, 1.0))
        once, every = (
            bit * of(1) + (1 - bit) * of(0) for of in (reading.noise.between, reading.noise.within)
        )
        lasting = reading.repetition * (once / reading.noise.gap**2 + bit * (1 - bit))
        parts.append(lasting / (lasting + every / reading.noise.gap**2))
    return float(np.mean(parts))


def _reserved(windows: WindowReadings, cells: Floats, reserved: int) -> Floats:
    """Shares of reserved values (T, r). cells: (T, n), of those in a cell in each window."""
    rows = []
    for readings, inside in zip(windows, cells, strict=True):
        size = len(inside)
        even = even_map(readings, size + reserved, reserved)
        shares = with_reserved(np.append(inside, np.zeros(reserved)), even[size:])
        rows.append(Misfit(readings, shares).reserved_shares(shares, reserved)[0])
    return np.array(rows)


def _maps(cells: Floats, deviations: Floats, changes: Released, weights: Floats) -> Floats:
    """Shares of the cells (T, n). weights: (T,) of the windows in the shared map, of sum 1."""
    tried = patterns(len(weights))
    field = np.log(cells)[:, None] + deviations
    maps = np.exp(field - field.max(axis=0))
    maps /= maps.sum(axis=0)
    for cell, pattern, size in zip(changes.cells, changes.patterns, changes.shrunk, strict=True):
        amount = size * (tried[pattern] - tried[pattern] @ weights)
        maps *= 1 - amount  # what goes to a cell comes from all in proportion
        maps[cell] += amount
    maps = np.maximum(maps, _MIN_PART * cells[:, None])
    return np.asarray((maps / maps.sum(axis=0)).T)


def _shared_freedom(windows: WindowReadings, shared: Floats, precision: Any) -> float:
    """How many parameters the shared map has really, given its prior: what it gains by noise."""
    size, parts = len(shared), []
    for level in range(len(windows[0])):
        rows = sum(window[level].precision(shared) for window in windows)
        design = windows[0][level].design
        rates = design @ shared
        toward = np.sqrt(rows)[:, None] * (design.toarray() - rates[:, None])
        parts.append(toward * shared)
    response = np.concatenate(parts)
    if len(response) < size:
        solved = np.asarray(factor(precision).solve(np.ascontiguousarray(response.T)))
        total, precision = response @ solved, np.eye(len(response))
    else:
        total, precision = response.T @ response, precision.toarray()
    return float(np.trace(cho_solve(cho_factor(total + precision), total)))
