"""Memories below the devices' in which blocks of prompts stay: what they hold, which give way, and the way to them."""
