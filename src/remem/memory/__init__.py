"""Whole-number arithmetic of the budget, and the store of held rows. Pure numpy."""
