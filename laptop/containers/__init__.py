"""The system as containers: start, stop, back up and restore."""
