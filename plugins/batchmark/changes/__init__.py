"""Series over many runs: their levels, suspects and causes."""
