"""Differential privacy for counters that their holder has in clear: server metrics, reports a slot.

Not for what was decoded from reports: that is private already.
"""

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
