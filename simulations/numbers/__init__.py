"""Metrics of numbers against a known truth: populations, draws, rivals, tables."""
