"""Takes a run from its parameters to its results: planning, budget, collecting."""
