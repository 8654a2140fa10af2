"""Backbones, classification heads that grow, and the network that joins them in one forward pass."""
