"""Attribute disclosure: can a value be learned?"""
