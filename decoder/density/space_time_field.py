"""Maps for many windows of one slot from a field over space and time, in one linear step.

The windows share one map. Each has free shares of reserved values, and small deviations d_t of the
log shares: cov(d_s, d_t) = tau^2 R_st S^-1, R_st = phi^|s - t|. The deviations are posterior means
of the model linearized at the shared map (a best linear unbiased prediction), so the solution is
unique. Their strength is learned from contrasts between windows (`space_time_model`). Changes of
single cells are estimated separately (`cell_changes`)."""

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

_MIN_PART = 1e-3  # the fraction of its shared share that a cell keeps if a change removes all of it


@dataclass(frozen=True)
class SpaceTimeField:
    """The fitted maps of T windows.

    The freedoms are effective numbers of parameters: the nats by which fitting noise improves the
    fit."""

    shares: Floats  # (T, n), positive, each row sums to 1; the r reserved values are last
    shared_freedom: Floats  # (T,), each window's fraction of the shared map's freedom
    own_freedom: Floats  # (T,), the freedom of each window's deviations
    deviations: Deviations
    graph: Graph
    strengths: Strengths
    changes: Released  # The detected changes of single cells


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
        windows: The equations of each window, all with the same rows (precision 0 without reports).
        shared: The map (n,) fitted to all windows together.
        precision: The prior precision of its log shares, (n, n), sparse.
        laplacian: The graph Laplacian of neighbors (n, n); None for no graph.
        most_repeated: The bound of `most_repeated_noise`.
        reserved: The number r of reserved values among the shares; they are last.
        independent: Whether the deviations of different windows are independent (phi = 0).
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
    """Bound the fraction of a row's variance that stationary devices repeat in every window.

    This variance is from draws that devices make once per lifetime, and from the choice of cohorts.

    Args:
        windows: The equations of each window.
        shared: The shared map, (n,).
    """
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
    """Estimate the reserved values' shares (T, r), given each cell's share (T, n) of all cells."""
    rows = []
    for readings, inside in zip(windows, cells, strict=True):
        size = len(inside)
        even = even_map(readings, size + reserved, reserved)
        shares = with_reserved(np.append(inside, np.zeros(reserved)), even[size:])
        rows.append(Misfit(readings, shares).reserved_shares(shares, reserved)[0])
    return np.array(rows)


def _maps(cells: Floats, deviations: Floats, changes: Released, weights: Floats) -> Floats:
    """Return the cells' shares (T, n); `weights` (T,) weigh the windows in the shared map."""
    tried = patterns(len(weights))
    field = np.log(cells)[:, None] + deviations
    maps = np.exp(field - field.max(axis=0))
    maps /= maps.sum(axis=0)
    for cell, pattern, size in zip(changes.cells, changes.patterns, changes.shrunk, strict=True):
        amount = size * (tried[pattern] - tried[pattern] @ weights)
        maps *= 1 - amount  # the share that moves to a cell comes from all cells in proportion
        maps[cell] += amount
    maps = np.maximum(maps, _MIN_PART * cells[:, None])
    return np.asarray((maps / maps.sum(axis=0)).T)


def _shared_freedom(windows: WindowReadings, shared: Floats, precision: Any) -> float:
    """Return the effective number of parameters of the shared map, given its prior."""
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
