"""What other tools measured, as rows of the suite `imported`; a module for each format."""
