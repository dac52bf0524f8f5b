"""Memories below the devices' in which blocks of prompts stay: what they hold, who gives way, and the way to them."""
