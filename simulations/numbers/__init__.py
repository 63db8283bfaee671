"""Experiments with metrics of numbers: populations with a known truth, draws, rivals, tables."""
