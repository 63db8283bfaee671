"""Lists of candidates and of weights, by name and version."""
