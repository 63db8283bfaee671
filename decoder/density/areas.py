"""Shares of named areas, such as districts: weighted sums of cells, with the cells' covariance.

The sum over a whole area is far more precise than its cells, because noise that moves people
between neighboring cells cancels (docs/method.md, "Named areas")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.special import ndtri

from decoder.density.cells import Places, in_order
from decoder.density.maps import Density
from decoder.errors import DecodeError
from decoder.grid_cells import location_of
from decoder.model.counts import Observed, location_repetition, observe
from decoder.model.noise import BitNoise
from decoder.numerics.bit_tensor import one_thread
from decoder.typing import Flags, Floats, Indices
from rappor_core.aggregate import Aggregate

MAX_NUMBERS = 25_000_000  # maximum number of cells times observed bit shares: a matrix of 200 MB
_FITTED = 0.5  # the maximum number of fitted shares, as a fraction of the rows' degrees of freedom
_NEGLIGIBLE = 1e-10  # smaller eigenvalues, relative to the largest, count as 0


@dataclass(frozen=True)
class Areas:
    """Named areas over the cells of a map, (G,)."""

    names: tuple[str, ...]
    weights: Any  # Part of each finest cell's surface in the area: sparse (G, cells), in [0, 1]
    covered: Floats  # The fraction of the area's surface that the cells cover
    overlapping: tuple[tuple[str, str], ...]  # Names of the areas of each overlapping pair
    geometries: tuple[Mapping[str, Any], ...]  # The GeoJSON geometries, as given


@dataclass(frozen=True)
class AreaShares:
    """The share of each area (G,) among all answers in a map, with intervals at the map's level."""

    areas: Areas
    map_share: Floats  # The sum of the map's shares
    estimate: Floats  # Unbiased
    std_error: Floats
    low: Floats
    high: Floats
    detected: Flags  # Significantly above 0, with a Bonferroni correction over the areas


def area_shares(aggregates: Sequence[Aggregate], density: Density, areas: Areas) -> AreaShares:
    """Estimate the shares of areas.

    Args:
        aggregates: The aggregates of one slot and window, one for each level.
        density: The map of these aggregates, with all cells.
        areas: The areas, over the map's cells.

    Raises:
        DecodeError: The map shows pairs of places, or there is too little data for so many areas.
    """
    if density.places.pairs:
        raise DecodeError("trips have no area; omit the areas")
    weights = np.zeros((len(areas.names), len(density.shares)))
    weights[:, : density.num_cells] = areas.weights.toarray()
    ordered = in_order(aggregates)
    with one_thread():
        if len(ordered) == 1 and ordered[0].params.scheme.own_bits:
            # the noise of bits is independent; each sampled person is in exactly one cell
            level, shares = ordered[0], density.shares
            repetition = location_repetition(level, *location_of(level), density.options.repeats)
            noise = BitNoise.of(level.params.mechanism).mechanism_variance(shares, repetition)
            sampled = np.maximum(weights**2 @ shares - (weights @ shares) ** 2, 0)
            variance = weights**2 @ noise + repetition * sampled
            estimate = weights @ density.estimate
            error = np.sqrt(variance / level.num_reports)
        else:
            estimate, error = _of_shared_bits(ordered, density, weights)
    options = density.options
    half = -float(ndtri((1 - options.level) / 2)) * error
    strict = -float(ndtri(options.alpha / (2 * len(areas.names))))
    return AreaShares(
        areas, weights @ density.shares, estimate, error,
        (estimate - half).clip(0, 1), (estimate + half).clip(0, 1),
        np.asarray(estimate - strict * error > 0),
    )  # fmt: skip


def check_size(aggregates: Sequence[Aggregate], places: Places) -> None:
    """Raise DecodeError if areas of this slot and window would need too large a design matrix."""
    if len(aggregates) == 1 and aggregates[0].params.scheme.own_bits:
        return
    params = [aggregate.params for aggregate in aggregates]
    numbers = sum(
        (1 if parameter.scheme.own_bits else parameter.num_cohorts) * parameter.num_bits
        for parameter in params
    )
    if numbers * len(places.finest) > MAX_NUMBERS:
        raise DecodeError(
            f"areas over {len(places.finest):,} values that are read from {numbers:,} numbers are "
            f"too many: their product may be {MAX_NUMBERS:,}; use a coarser level"
        )


def _of_shared_bits(
    aggregates: Sequence[Aggregate], density: Density, weights: Floats
) -> tuple[Floats, Floats]:
    """Estimate the areas' shares and errors (G,) by least squares over cells or blocks of cells."""
    design, target, freedom = _whitened(aggregates, density)
    size = density.shares.size
    even = np.full(size, 1 / size)
    columns = design - (design @ even)[:, None]
    blocks = _blocks(density, weights, freedom)
    members = np.bincount(blocks)
    spread = sparse.csr_array((1 / members[blocks], (np.arange(size), blocks)))
    fitted = np.asarray(columns @ spread)
    data = target - design @ even
    values, vectors = linalg.eigh(fitted.T @ fitted)
    large = values > _NEGLIGIBLE * values[-1]
    root = vectors[:, large] / np.sqrt(values[large])
    covariance = root @ root.T  # of the shares, for noise with variance 1
    shares = covariance @ (fitted.T @ data)
    rest = freedom - int(large.sum())
    if rest < 1:
        raise DecodeError(
            f"{len(weights)} areas of these outlines are not told apart by {freedom} numbers: give "
            "fewer areas, along cells, or collect from more cohorts"
        )
    excess = max(1.0, float(((data - fitted @ shares) ** 2).sum()) / rest)
    sums = (weights - (weights @ even)[:, None]) @ spread
    variance = excess * np.einsum("gb,bc,gc->g", sums, covariance, sums)
    within = columns - fitted[:, blocks]
    uneven = (excess - 1) * rest / max(float((within**2).sum()), 1e-300)
    apart = weights - np.asarray(weights @ spread)[:, blocks]
    variance += uneven * (apart**2).sum(axis=1)
    return weights @ even + sums @ shares, np.sqrt(variance)


def _blocks(density: Density, weights: Floats, freedom: float) -> Indices:
    """Return each value's block number (n,); the cells in a block are fitted as one unknown.

    A block consists of consecutive cells that have similar weights in the areas. Detected cells and
    reserved values are not merged."""
    size = density.shares.size
    most = int(_FITTED * freedom)
    alone = density.detected.copy()
    alone[density.num_cells :] = True
    length = 1
    while True:
        keys = np.vstack([np.round(4 * weights), np.arange(size) // length])
        keys = np.vstack([keys, np.where(alone, np.arange(size), -1)])
        blocks = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
        if blocks.max() < most or length >= size:
            return np.asarray(blocks, dtype=np.intp)
        length *= 2


def _whitened(aggregates: Sequence[Aggregate], density: Density) -> tuple[Floats, Floats, int]:
    """Return the design (rows, n) and target (rows,) at noise variance 1, and their freedom."""
    designs, targets, free = [], [], 0
    places = density.places
    for index, aggregate in enumerate(aggregates):
        counts = _observed(aggregate, places, index, density.options.repeats)
        bits = counts.bit_shares.shape[1]
        used = np.array(aggregate.reports_per_cohort) > 0
        design = (
            places.design(index, aggregate.params).toarray().reshape(-1, bits, len(density.shares))
        )
        if len(design) == len(used):
            design = design[used]
        shares: Floats = np.bincount(places.ancestors(index), density.shares).astype(np.float64)
        roots = np.linalg.cholesky(counts.noise_of(shares))
        for root, part, target in zip(roots, design, counts.bit_shares, strict=True):
            designs.append(linalg.solve_triangular(root, part, lower=True))
            targets.append(linalg.solve_triangular(root, target, lower=True))
        free += counts.rows
    return np.concatenate(designs), np.concatenate(targets), free


def _observed(level: Aggregate, places: Places, index: int, repeats: float | None) -> Observed:
    """Return a level's debiased counts, merged into one cohort if each cell has a separate bit."""
    repetition = location_repetition(level, *location_of(level), repeats)
    cells = places.candidates(index, level.params)
    counts = observe(level, cells.positions(level.params), repetition)
    if not level.params.scheme.own_bits:
        return counts
    reports = counts.noise.reports
    return Observed(
        (reports @ counts.bit_shares / reports.sum())[None, :],
        counts.positions[:, :1],
        replace(counts.noise, reports=reports.sum(keepdims=True)),
    )
