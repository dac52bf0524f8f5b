"""A network as a page, a picture and an HTML file."""
