"""Synthetic rows: of a table in clear with an epsilon, and of decoded estimates at no cost."""

from disclosure.synthetic_rows.combining import Combined, combine, combine_shares
from disclosure.synthetic_rows.decoded import synthesise_decoded
from disclosure.synthetic_rows.domain import (
    Categories,
    EqualBins,
    RowDomain,
    load_row_domain,
)
from disclosure.synthetic_rows.estimates import (
    DecodedCells,
    SlotMap,
    draw_shares,
    slot_estimates,
)
from disclosure.synthetic_rows.kd_tree import KdTree
from disclosure.synthetic_rows.partitioning import (
    Partitioner,
    partitioner_named,
)
from disclosure.synthetic_rows.perturbation import (
    perturb,
    project_to_total,
    without_negatives,
)
from disclosure.synthetic_rows.private_histogram import (
    Baseline,
    DPCocGen,
    NoisyHistogram,
    draw_rows,
    estimate_histogram,
)

__all__ = [
    "Baseline",
    "Categories",
    "Combined",
    "DPCocGen",
    "DecodedCells",
    "EqualBins",
    "KdTree",
    "NoisyHistogram",
    "Partitioner",
    "RowDomain",
    "SlotMap",
    "combine",
    "combine_shares",
    "draw_rows",
    "draw_shares",
    "estimate_histogram",
    "load_row_domain",
    "partitioner_named",
    "perturb",
    "project_to_total",
    "slot_estimates",
    "synthesise_decoded",
    "without_negatives",
]
