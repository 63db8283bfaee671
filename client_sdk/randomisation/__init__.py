"""Secret, keys, and the two rounds of the randomised response."""
