"""A regression check as terminal page, Markdown, JUnit XML and annotations of GitHub."""
