"""Counts of rows that share each key of a table in which some key values are missing."""

from disclosure.risk.domain import Domain, load_domain
from disclosure.risk.missing_values import Method, assess_risk

__all__ = ["Domain", "Method", "assess_risk", "load_domain"]
