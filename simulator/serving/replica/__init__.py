"""One replica: its queue and cache blocks, the batches that run on it, and the record that they leave."""
