"""An AWS emulator for one machine: a moto server whose Batch actually runs jobs."""
