"""Runs: settings, construction, execution, checkpoints, results and models."""
