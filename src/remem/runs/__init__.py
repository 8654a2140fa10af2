"""Settings, building, results, checkpoints and runners."""
