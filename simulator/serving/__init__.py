"""Arrivals, requests, cache blocks, batching and routing as decisions; the engine lets time pass between them."""
