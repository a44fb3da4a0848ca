-- The truth: one row per run, with what must be found or counted beside it.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE runs (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    uid           TEXT NOT NULL UNIQUE,
    namespace_uid TEXT NOT NULL,
    namespace     TEXT NOT NULL,
    name          TEXT NOT NULL,
    -- Raised by one with every change: the compare of compare-and-set.
    version       INTEGER NOT NULL,
    -- The leader's epoch that made the last change.
    epoch         INTEGER NOT NULL,
    state         TEXT NOT NULL,
    engine_id     TEXT,
    instance_key  INTEGER,
    -- Frozen at open.
    dossier       TEXT NOT NULL,
    row           TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX runs_by_instance ON runs (engine_id, instance_key) WHERE instance_key IS NOT NULL;
CREATE INDEX runs_unsealed ON runs (seq) WHERE state <> 'Sealed';

-- Tokens of attempts, by hash; the run's row says whether one still holds.
CREATE TABLE tokens (
    sha256  TEXT PRIMARY KEY,
    run_uid TEXT NOT NULL REFERENCES runs (uid),
    kind    TEXT NOT NULL,
    number  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Tombstones of effect identity; never removed.
CREATE TABLE effects (
    namespace_uid   TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    proposal_hash   TEXT NOT NULL,
    actor_hash      TEXT NOT NULL,
    run_uid         TEXT NOT NULL REFERENCES runs (uid),
    PRIMARY KEY (namespace_uid, idempotency_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE receipts (
    run_uid       TEXT PRIMARY KEY REFERENCES runs (uid),
    namespace_uid TEXT NOT NULL,
    hash          TEXT NOT NULL,
    log_index     INTEGER NOT NULL,
    envelope      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One transparency log for each namespace.
CREATE TABLE log (
    namespace_uid TEXT NOT NULL,
    idx           INTEGER NOT NULL,
    run_uid       TEXT NOT NULL REFERENCES runs (uid),
    entry         TEXT NOT NULL,
    PRIMARY KEY (namespace_uid, idx)
) STRICT, WITHOUT ROWID;

-- What an engine calls a process's bytes.
CREATE TABLE definitions (
    engine_id      TEXT NOT NULL,
    bpmn_sha256    TEXT NOT NULL,
    definition_key INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    PRIMARY KEY (engine_id, bpmn_sha256)
) STRICT, WITHOUT ROWID;
