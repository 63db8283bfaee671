"""Statistical disclosure control: publication of decodings and of tables with raw data.

`release` creates releases of decoded estimates. The other subpackages (risk, anonymization,
co-clustering, rows, series, aggregation) work on raw tables in their holder's possession. They add
nothing to the privacy guarantee of a report, which the device provides; `docs/publication.md` says
which part protects against what."""
