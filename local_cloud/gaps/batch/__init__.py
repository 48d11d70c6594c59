"""Batch's environments, queues and job definitions, with the fields that moto drops."""
