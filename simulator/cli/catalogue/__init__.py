"""Commands about what the program knows and brings: profiles, schemas, starters, the installation, the shell."""
