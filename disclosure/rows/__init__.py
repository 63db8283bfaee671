"""Publishable rows: synthetic rows of a raw table or of decoded estimates, and their evaluation."""
