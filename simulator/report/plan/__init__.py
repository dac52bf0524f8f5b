"""A plan as terminal page, HTML file and plots."""
