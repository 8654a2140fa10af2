"""Backbones and heads that grow; every network returns features, maps, scores and logits from one forward."""
