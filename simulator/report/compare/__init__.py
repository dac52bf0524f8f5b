"""A comparison as terminal page, HTML file and plots."""
