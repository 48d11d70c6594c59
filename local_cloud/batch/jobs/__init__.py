"""The data of jobs: submission, containers, required resources, dependencies, retry rules."""
