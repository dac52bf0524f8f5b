"""A workflow as a page for a terminal and as an HTML file with its timeline."""
