"""A session becomes cards and passages."""
