"""What memory holds about one subject."""
