"""Releases, which are proposed from results, decided by a second person, then visible to all."""
