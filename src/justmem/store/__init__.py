"""One store on two engines.

`store` holds every operation once, in SQL that SQLite and PostgreSQL both accept. `search` scans
the vectors and postings of a space as arrays. `sqlite` and `postgres` hold what differs:
connections, locks, keys, vacuum. `erase` proves that what was forgotten is gone.
"""
