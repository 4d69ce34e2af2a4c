"""Like A-Mem: a note has links to other notes, which are shown below it."""
