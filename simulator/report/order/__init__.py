"""An order of nodes as a page for a terminal."""
