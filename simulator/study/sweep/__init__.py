"""One scenario at many values of its keys."""
