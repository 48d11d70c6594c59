"""Own jobs in words, tables and charts."""
