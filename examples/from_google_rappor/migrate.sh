#!/bin/sh
# From google/rappor: decode what was collected, then declare the same metric for what will be.
set -eu
rappor decode --params params.csv --counts counts.csv --map map.csv -o by-map
rappor decode --params params.csv --counts counts.csv --set hash=md5 --candidates candidates.txt -o by-hash
rappor metrics check metrics.toml
rappor metrics compile metrics.toml -o metrics.json
