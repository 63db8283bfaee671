"""Whole jobs, from a source of aggregates to files, without a command line."""
