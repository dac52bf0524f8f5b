"""What runs beside the layers of a stage: adapters, drafts, encoders, loads of weights, attention elsewhere."""
