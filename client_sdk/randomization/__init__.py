"""The secret, the keys, and the two rounds of randomized response."""
