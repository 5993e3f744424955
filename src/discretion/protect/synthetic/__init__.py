"""Synthetic data: new rows drawn from a model of the data."""
