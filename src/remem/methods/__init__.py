"""Methods: each a list of Stages for the one training loop in learner.py."""
