"""Reinforcement learning of memory policies: the estimator of Algorithm 1."""
