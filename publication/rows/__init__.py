"""Synthetic rows of decoded estimates: their sources, and what a policy lets into them."""
