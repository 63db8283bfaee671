"""Differences between windows: of shares, of maps, of numbers; every test of change, once."""
