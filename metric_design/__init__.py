"""The design of metrics before they ship: plans, reviews, predicted errors, codes, accessors."""
