"""Numeric kernels: numpy arrays in, numpy arrays out; no frames, no files, no state.

The modules here import numpy, so callers import them inside functions; numba is imported when a kernel is compiled.
"""
