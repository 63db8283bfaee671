"""Metrics of numbers on a device: numbers are collected over a period and reported after its
end."""
