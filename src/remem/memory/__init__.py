"""Memory budget arithmetic and the store of held rows, without torch."""
