"""Lists of candidates and weights, with names and versions."""
