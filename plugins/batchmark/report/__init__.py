"""Everything put into words: page, terminal, messages."""
