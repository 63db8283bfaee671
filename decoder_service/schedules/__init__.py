"""Schedules: the windows that they decode, and what they found over them."""
