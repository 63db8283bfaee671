"""Statistical disclosure control: publication of decodings and of tables with raw data.

`release` creates releases of decoded estimates. The other subpackages (risk, anonymization,
co-clustering, rows, series, aggregation) work on raw tables that the publisher owns. They do not
add to the privacy guarantee of a report, which the device provides; `docs/publication.md` states
what each part protects against."""
