"""Runs on frozen features, many at once: one tensor program trains the heads of all runs of a phase."""
