"""What users bring themselves: their files, what these lack, and the code in them."""
