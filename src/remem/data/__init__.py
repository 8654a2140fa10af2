"""Data sets, banks of rows, class orders, scenarios, augmentation and batches. Knows nothing of memory or learning."""
