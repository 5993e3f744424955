"""Microdata with roles, hierarchies, files: the only package that knows formats and frame libraries."""
