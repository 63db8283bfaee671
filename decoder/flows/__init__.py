"""Flows between usual cells, such as from home to work, with intervals."""
