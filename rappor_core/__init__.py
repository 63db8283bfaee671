"""What both ends must agree on: parameters, privacy, hashing, wire format, aggregates, metrics.

Standard library and mmh3 only. No network, no database.
"""
