"""Simulations of joint tables: pair metrics against linked reports."""
