"""One store on two engines.

store                        the methods of the port, for both engines
schema, rows                 tables and migrations; values to rows and back
reads, writes, derived,      the operations, in SQL that both engines accept
forgetting, log, check
terms, codes                 what is stored of a text and of a vector, for the search
arrays, search               the index of a space in memory; the search
erase                        searches tables and files for remains of what was forgotten
engine                       a connection inside a transaction; opening spaces by address
sqlite, sqlite_connection,   SQLite: the store, opening, spaces of a folder; connections, keys and
files                        migrations; names and bytes of files
postgres, postgres_connection  PostgreSQL: the store, opening, the queue of all spaces, vacuum;
                             connections, errors, migrations and row-level security
memory                       spaces in memory
"""
