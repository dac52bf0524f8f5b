"""What a run of weeks says: its length, what fails, how it is saved and restarted, and to which storage."""
