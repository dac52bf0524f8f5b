"""Keys and values on a replica: its blocks, prefixes and chunks that outlive requests, loads from tiers below."""
