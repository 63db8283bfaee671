"""Differential privacy for raw counters: server metrics, reports by slot.

Do not use it for decoded reports, which are already private."""

from disclosure.series.budget import BudgetLedger, Charge, make_ledger, open_ledger, read_ledger
from disclosure.series.noise import (
    add_geometric,
    add_laplace,
    bound_contributions,
    geometric_variance,
    perturb_by_fourier_laplace,
)

__all__ = [
    "BudgetLedger",
    "Charge",
    "add_geometric",
    "add_laplace",
    "bound_contributions",
    "geometric_variance",
    "make_ledger",
    "open_ledger",
    "perturb_by_fourier_laplace",
    "read_ledger",
]
