-- Runs whose attempts may have left a process or pod that could not be cleared away before the receipt was made.
CREATE TABLE leftovers (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    run_uid TEXT NOT NULL UNIQUE REFERENCES runs (uid)
) STRICT;
