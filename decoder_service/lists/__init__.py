"""Lists of candidates and weights, by name and version."""
