"""Pages beside the report's own."""
