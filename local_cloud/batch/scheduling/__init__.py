"""Decides when and where jobs run: queue order, resource pool, timers."""
