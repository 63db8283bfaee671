"""Densities of places: maps from the aggregates of location metrics, with intervals."""
