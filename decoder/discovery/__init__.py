"""Frequent strings that no list of candidates holds, from reports of coded prefixes."""
