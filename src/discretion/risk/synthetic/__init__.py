"""Attacks on releases whose records belong to nobody: synthetic data, and any other release."""
