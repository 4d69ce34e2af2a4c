"""What people write and change by hand: notes, corrections, pins. The log of all changes."""
