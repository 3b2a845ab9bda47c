"""Cursors: readers of a queue by ranges of positions."""
