"""Accuracy, forgetting and confusion, in numpy."""
