"""Tries to break what reliability.md promises: kills, damaged files, mutated inputs, random allocations."""
