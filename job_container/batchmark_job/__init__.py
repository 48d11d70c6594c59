"""The benchmark job: measures workloads, usually on one machine, and writes one result document."""
