"""Rows of single things: a copy over one link, a layer's attention or experts in one kernel."""
