"""Stores one alert for each change in the result bucket, and sends one message for each run."""
