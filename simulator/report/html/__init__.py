"""What self-contained HTML files are made of: elements, tables, style sheet and script."""
