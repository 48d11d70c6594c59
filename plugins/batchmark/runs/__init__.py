"""Plans runs, checks them against the budget and collects their results."""
