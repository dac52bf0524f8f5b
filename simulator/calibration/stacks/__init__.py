"""The numbers of software stacks fitted on published rows."""
