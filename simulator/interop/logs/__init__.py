"""What training and serving frameworks print about their own runs."""
