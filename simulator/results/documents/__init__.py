"""What studies find, typed: the documents that `--json` writes and that every report of many runs draws."""
