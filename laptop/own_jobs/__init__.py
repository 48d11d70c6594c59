"""Own jobs on this machine."""
