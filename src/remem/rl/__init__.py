"""Reinforcement learning of memory policies: Algorithm 1."""
