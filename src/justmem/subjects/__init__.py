"""What memory holds about one subject, and the name of the user."""
