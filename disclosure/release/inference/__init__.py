"""Audit of a suppression pattern: what a reader can compute from published tables.

Every number that is public is a linear constraint on what is not. For each number that is withheld
the least and the largest value that agree with all of them are two linear programs (Fischetti and
Salazar 2000, "Models and algorithms for optimizing cell suppression in tabular data with linear
constraints"; tau-ARGUS and sdcTable solve the same ones).
"""
