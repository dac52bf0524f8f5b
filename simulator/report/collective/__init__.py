"""One collective as a page."""
