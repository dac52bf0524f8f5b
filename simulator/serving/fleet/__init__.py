"""Replicas together: where they lie, the router before them, and caches on their way between them."""
