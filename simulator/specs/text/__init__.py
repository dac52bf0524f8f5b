"""From text to specs and back: YAML with places, overrides, numbers, messages, the written form."""
