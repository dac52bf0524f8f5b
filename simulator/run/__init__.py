"""A scenario on a machine: resolve, price, fold, execute, gather the Result."""
