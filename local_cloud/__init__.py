"""AWS on one machine: a moto server whose Batch really runs jobs."""
