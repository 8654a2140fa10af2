"""What is shown while work goes on. A display is a subscriber to events: bars on a terminal, lines elsewhere."""
