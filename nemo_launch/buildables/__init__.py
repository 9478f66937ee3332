"""Recipes as Python objects: fiddle's configs, what is wrong with them, overrides, and recipe files.

Imported only where such a recipe is used: fiddle takes a moment.
"""
