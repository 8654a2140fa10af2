"""Trackers: subscribers of the event stream that hand numbers to TensorBoard, MLflow or Weights & Biases."""
