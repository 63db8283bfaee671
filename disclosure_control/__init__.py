"""Tables that their holder has in clear: risk, k-anonymity, co-clustering, synthetic rows, noise.

Nothing here adds to the guarantee of a report, which the device gives; `docs/publication.md` says
which part protects against what.
"""
