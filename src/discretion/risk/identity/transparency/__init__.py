"""Transparency attacks: what an intruder gains who knows the methods applied and their parameters (R14)."""
