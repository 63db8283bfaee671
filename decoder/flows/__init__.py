"""Flows between usual cells: how many people of one cell work in another, with intervals."""
