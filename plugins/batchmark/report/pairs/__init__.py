"""GPU targets against CPU targets, row by row."""
