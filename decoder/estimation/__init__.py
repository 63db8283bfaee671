"""Estimators of shares: one bit a value, LASSO, and leave-one-out scores by EP."""
