"""Published systems beside ours: a page for a terminal, an HTML file, and docs/papers.md."""
