"""Samples and phases: sources, banks, orders, scenarios, augmentation. Knows nothing of memory or learning."""
