"""Ranks samples by their features, best first, and splits classes into harder and easier ones by entropy."""
