"""How a row is measured: samples, choice of the implementation, statistics, ceilings."""
