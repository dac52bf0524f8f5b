"""What a serving run has to say: its requests, its fleet, its caches, and their part of the file."""
