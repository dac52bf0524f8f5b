"""Model configurations of Hugging Face as models."""
