"""Schedules: decodings of every sealed window, and what was found over all of them."""
