"""The migrations, with one module per revision."""
