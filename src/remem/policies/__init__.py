"""State -> action. Policies see no data and no model."""
