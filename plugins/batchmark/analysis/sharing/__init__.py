"""What tasks that share a device get of it, and how many of them may."""
