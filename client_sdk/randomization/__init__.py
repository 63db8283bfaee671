"""The secret, keys, and the two rounds of the randomized response."""
