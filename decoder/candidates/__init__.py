"""Candidate values: lists, files, and the Bloom positions of each candidate."""
