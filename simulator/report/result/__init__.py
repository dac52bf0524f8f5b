"""The reports of one Result, of whatever kind: terminal page, HTML file, plots."""
