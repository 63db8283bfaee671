"""The audit of a suppression pattern: the inferences that published tables allow.

Every public number is a linear constraint on the hidden numbers. The minimum and the maximum of
each hidden number under all constraints are two linear programs (Fischetti and Salazar 2000,
"Models and algorithms for optimizing cell suppression in tabular data with linear constraints";
tau-ARGUS and sdcTable solve the same programs)."""
