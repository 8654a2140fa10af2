"""Accuracy, forgetting, confusion: plain numpy on predictions."""
