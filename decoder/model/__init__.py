"""The statistical model of an aggregate: unbiased counts, noise, design matrix, prior, null."""
