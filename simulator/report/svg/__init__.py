"""What is drawn: bars, curves, scatter plots and Gantt charts as inline SVG, and figures of matplotlib as files."""
