"""Features -> ranking, best first; and the class entropy that tells hard classes from easy ones."""
