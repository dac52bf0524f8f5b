"""Shell scripts read for the words that a program is called with."""
