"""The smallest machine and its best layout under a service level objective."""
