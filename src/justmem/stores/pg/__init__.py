"""The parts of the PostgreSQL store (see `justmem.stores.postgres`)."""
