"""Archives of raw reports in Parquet files, for metrics that keep them, and sums over them.

A sealed block of the collector becomes one part: a Parquet file and an entry of the manifest.
`export` writes parts, `sums` adds them up, `parts` verifies them. Needs the extra `archive`.
"""
