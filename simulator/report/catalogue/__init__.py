"""What is known and what can be written: profiles, resolved scenarios, schema, completion, the installation."""
