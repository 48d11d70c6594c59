"""Job data: submissions, containers, required resources, dependencies and retry rules."""
