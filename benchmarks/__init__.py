"""Ratios against plain versions, measured in one run: `make bench`."""
