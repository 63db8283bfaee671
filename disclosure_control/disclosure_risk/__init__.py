"""How many rows share each key of a table, where some values of the keys are missing."""

from disclosure_control.disclosure_risk.domain import Domain, load_domain
from disclosure_control.disclosure_risk.missing_values import (
    METHODS,
    Method,
    RiskReport,
    assess_risk,
    encode_columns,
)
from disclosure_control.disclosure_risk.tables import read_columns

__all__ = [
    "METHODS",
    "Domain",
    "Method",
    "RiskReport",
    "assess_risk",
    "encode_columns",
    "load_domain",
    "read_columns",
]
