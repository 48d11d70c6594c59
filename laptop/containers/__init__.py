"""The system as containers: start and stop it, save and restore what it holds."""
