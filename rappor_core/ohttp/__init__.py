"""Oblivious HTTP (RFC 9458): requests that a relay forwards but cannot read.

Devices and collectors use this package. It needs the library `cryptography` (extra `relay`).
"""
