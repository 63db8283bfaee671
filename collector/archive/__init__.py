"""Archives of raw reports in Parquet files, for metrics that store them, and sums over archives.

A sealed block of the collector becomes one part: a Parquet file and a manifest entry.
`export` writes parts, `sums` adds them up, `parts` verifies them. Needs the extra `archive`.
"""
