"""A sweep as terminal page, HTML file and plots."""
