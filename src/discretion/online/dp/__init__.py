"""Differentially private answers: how much noise, from where, at what price."""
