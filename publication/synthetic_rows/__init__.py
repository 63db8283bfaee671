"""Synthetic rows: of a table in clear with an epsilon, and of decoded estimates at no cost."""

from publication.synthetic_rows.combining import Combined, combine, combine_shares
from publication.synthetic_rows.decoded import synthesise_decoded
from publication.synthetic_rows.domain import Categories, EqualBins, RowDomain, load_row_domain
from publication.synthetic_rows.estimates import (
    CellEstimates,
    SlotMap,
    draw_shares,
    pair_estimates,
    slot_estimates,
)
from publication.synthetic_rows.kd_tree import KdTree
from publication.synthetic_rows.partitioning import (
    Partitioner,
    partitioner_named,
    partitioner_names,
)
from publication.synthetic_rows.perturbation import perturb, project_to_total, without_negatives
from publication.synthetic_rows.private_histogram import (
    Baseline,
    DPCocGen,
    NoisyHistogram,
    draw_rows,
    estimate_histogram,
)
from publication.synthetic_rows.publishing import admit_estimates, release_of_rows, write_rows
from publication.synthetic_rows.sources import read_estimates

__all__ = [
    "Baseline",
    "Categories",
    "CellEstimates",
    "Combined",
    "DPCocGen",
    "EqualBins",
    "KdTree",
    "NoisyHistogram",
    "Partitioner",
    "RowDomain",
    "SlotMap",
    "admit_estimates",
    "combine",
    "combine_shares",
    "draw_rows",
    "draw_shares",
    "estimate_histogram",
    "load_row_domain",
    "pair_estimates",
    "partitioner_named",
    "partitioner_names",
    "perturb",
    "project_to_total",
    "read_estimates",
    "release_of_rows",
    "slot_estimates",
    "synthesise_decoded",
    "without_negatives",
    "write_rows",
]
