"""Numerical routines without statistics: index tensors, L-BFGS, projections, threads."""
