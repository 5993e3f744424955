"""Numeric kernels: numpy arrays in, numpy arrays out; no frames, no files, no state.

The modules here import numba when they are first imported, so callers import them inside functions.
"""
