"""Audits of what devices reveal: trackability, and attacks on location metrics."""
