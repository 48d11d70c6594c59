"""Check the environment, diagnose waiting jobs, and find leaked resources."""
