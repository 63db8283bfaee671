"""Schedules, which decode every sealed window of a metric."""
