"""Differential privacy for counters that their holder has in clear: server metrics, reports a slot.

Not for what was decoded from reports: that is private already.
"""

from disclosure.series.budget import BudgetLedger, Charge, make_ledger, open_ledger, read_ledger
from disclosure.series.noise import (
    add_gaussian,
    add_geometric,
    add_laplace,
    bound_contributions,
    gaussian_delta,
    gaussian_sigma,
    geometric_variance,
    perturb_by_dct_gaussian,
    perturb_by_fourier_laplace,
)

__all__ = [
    "BudgetLedger",
    "Charge",
    "add_gaussian",
    "add_geometric",
    "add_laplace",
    "bound_contributions",
    "gaussian_delta",
    "gaussian_sigma",
    "geometric_variance",
    "make_ledger",
    "open_ledger",
    "perturb_by_dct_gaussian",
    "perturb_by_fourier_laplace",
    "read_ledger",
]
