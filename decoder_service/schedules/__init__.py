"""Schedules: decodings of every sealed window."""
