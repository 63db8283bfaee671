"""Metrics of numbers: from counts by cut of the line to a curve, quantiles and a mean."""
