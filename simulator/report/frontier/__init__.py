"""A frontier as terminal page, HTML file and plot."""
