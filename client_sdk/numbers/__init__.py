"""Metrics of numbers on one device: collected over a period, reported once it is over."""
