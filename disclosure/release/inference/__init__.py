"""Audit of a suppression pattern: the inferences that a reader can draw from published tables.

Every public number is a linear constraint on the hidden ones. The minimum and the maximum of each
hidden number that agree with all constraints are two linear programs (Fischetti and Salazar 2000,
"Models and algorithms for optimizing cell suppression in tabular data with linear constraints";
tau-ARGUS and sdcTable solve the same ones)."""
