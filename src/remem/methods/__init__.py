"""Learning methods: each defines its loss and the Stages that the training loop runs."""
