"""Statistical disclosure control: what may be published, of decodings and of tables in clear.

`release` makes releases of decoded estimates. The other sub-packages work on tables that their
holder has in clear: risk, anonymization, co-clustering, rows, series, aggregation. They add nothing
to the guarantee of a report, which the device gives; `docs/publication.md` says which part protects
against what.
"""
