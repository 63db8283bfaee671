"""Releases: proposed from results, decided by a second person, then seen by all."""
