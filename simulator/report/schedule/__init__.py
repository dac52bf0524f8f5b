"""A pipeline schedule as a page for a terminal and as a picture."""
