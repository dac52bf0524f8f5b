"""How rows spread over experts, and passes over the rows of experts."""
