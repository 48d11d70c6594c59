"""A job as data: submission, containers, required resources, dependencies, retry rules."""
