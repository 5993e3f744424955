"""Generators: rows drawn from a model of the data."""
