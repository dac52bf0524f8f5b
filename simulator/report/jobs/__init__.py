"""A run of several jobs: what each takes alone and beside the others, and where they met."""
