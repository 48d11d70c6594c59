"""Where the trigger was in 0.1; see batch.py."""
