"""How values become set bits: one module an encoding, registered in `interface`."""
