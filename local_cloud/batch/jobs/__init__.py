"""A job as data: submission, containers, required resources, retry rules."""
