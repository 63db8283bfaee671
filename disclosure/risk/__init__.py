"""How many rows share each key of a table, where some values of the keys are missing."""

from disclosure.risk.domain import Domain, load_domain
from disclosure.risk.missing_values import (
    METHODS,
    Method,
    RiskReport,
    assess_risk,
    encode_columns,
)

__all__ = [
    "METHODS",
    "Domain",
    "Method",
    "RiskReport",
    "assess_risk",
    "encode_columns",
    "load_domain",
]
