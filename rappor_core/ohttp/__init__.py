"""Oblivious HTTP (RFC 9458): a request that a relay passes on and cannot read, for devices and
collectors. Needs the library `cryptography` (extra `relay`)."""
