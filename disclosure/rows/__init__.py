"""Synthetic rows drawn from decoded estimates: where estimates come from, and what a policy lets
into rows."""
