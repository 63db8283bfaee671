"""What may leave the house: disclosure risk, anonymisation and measures of published data.

The sub-packages work on tables that their holder has in clear (strata, counters, exports). They add
nothing to the guarantee of a report, which the device gives; `docs/publication.md` says which part
protects against what.
"""
