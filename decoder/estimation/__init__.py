"""Estimators of shares: one bit per value, LASSO, and leave-one-out scores by EP."""
