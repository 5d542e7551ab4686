-- Times are wall nanoseconds since 1970 (…_ns), identities of transfers 64-bit numbers stored signed.
-- Words (state, kind, role, outcome) are those of the API.

CREATE TABLE agents (
    name TEXT PRIMARY KEY,
    boot INTEGER NOT NULL,
    role TEXT NOT NULL,
    version TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    listen TEXT NOT NULL,
    provider TEXT NOT NULL,
    transfers_live INTEGER NOT NULL,
    peers_up INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    counters TEXT NOT NULL, -- JSON: name → value
    stopped INTEGER NOT NULL, -- 1: it said goodbye
    seen_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE rails (
    agent TEXT NOT NULL REFERENCES agents (name) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    provider TEXT NOT NULL,
    address TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    state TEXT NOT NULL,
    speed_bps INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    writes INTEGER NOT NULL,
    PRIMARY KEY (agent, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE engines (
    agent TEXT NOT NULL REFERENCES agents (name) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    uuid BLOB NOT NULL,
    generation INTEGER NOT NULL,
    tp INTEGER NOT NULL,
    tp_size INTEGER NOT NULL,
    pp INTEGER NOT NULL,
    pp_size INTEGER NOT NULL,
    model TEXT NOT NULL,
    region_count INTEGER NOT NULL,
    region_bytes INTEGER NOT NULL,
    PRIMARY KEY (agent, position)
) STRICT, WITHOUT ROWID;

-- Up to which number the events of one start of one agent are in this database.
CREATE TABLE positions (
    agent TEXT NOT NULL,
    boot INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    updated_ns INTEGER NOT NULL,
    PRIMARY KEY (agent, boot)
) STRICT, WITHOUT ROWID;

-- One row a transfer, merged from both agents' events. The columns of a side stand in the order of
-- the stages, source before target: the program reads and writes them by position.
CREATE TABLE transfers (
    ordinal INTEGER PRIMARY KEY, -- order of first mention: what pages of the list continue after
    id INTEGER NOT NULL UNIQUE,
    state TEXT NOT NULL,
    live INTEGER NOT NULL,
    reason TEXT NOT NULL,
    request TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    source_engine BLOB NOT NULL,
    target_engine BLOB NOT NULL,
    tokens INTEGER NOT NULL,
    skip_tokens INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    layers INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    updated_ns INTEGER NOT NULL,

    source_agent TEXT NOT NULL,
    source_boot INTEGER NOT NULL,
    source_rails INTEGER NOT NULL,
    source_outcome TEXT NOT NULL, -- empty until it ended
    source_lost INTEGER NOT NULL,
    source_detail TEXT NOT NULL,
    source_opened_ns INTEGER NOT NULL, -- 0: not seen
    source_matched_ns INTEGER NOT NULL,
    source_granted_ns INTEGER NOT NULL,
    source_first_ready_ns INTEGER NOT NULL,
    source_last_ready_ns INTEGER NOT NULL,
    source_first_post_ns INTEGER NOT NULL,
    source_last_post_ns INTEGER NOT NULL,
    source_first_land_ns INTEGER NOT NULL,
    source_last_land_ns INTEGER NOT NULL,
    source_failing_ns INTEGER NOT NULL,
    source_ended_ns INTEGER NOT NULL,

    target_agent TEXT NOT NULL,
    target_boot INTEGER NOT NULL,
    target_rails INTEGER NOT NULL,
    target_outcome TEXT NOT NULL,
    target_lost INTEGER NOT NULL,
    target_detail TEXT NOT NULL,
    target_opened_ns INTEGER NOT NULL,
    target_matched_ns INTEGER NOT NULL,
    target_granted_ns INTEGER NOT NULL,
    target_first_ready_ns INTEGER NOT NULL,
    target_last_ready_ns INTEGER NOT NULL,
    target_first_post_ns INTEGER NOT NULL,
    target_last_post_ns INTEGER NOT NULL,
    target_first_land_ns INTEGER NOT NULL,
    target_last_land_ns INTEGER NOT NULL,
    target_failing_ns INTEGER NOT NULL,
    target_ended_ns INTEGER NOT NULL
) STRICT;

CREATE INDEX transfers_by_state ON transfers (state, ordinal);
CREATE INDEX transfers_live ON transfers (ordinal) WHERE live = 1;
CREATE INDEX transfers_not_done ON transfers (ordinal)
    WHERE state IN ('failed', 'cancelled', 'expired', 'lost');

CREATE TABLE events (
    id INTEGER PRIMARY KEY, -- grows with the time of arrival
    arrived_ns INTEGER NOT NULL,
    transfer INTEGER NOT NULL,
    agent TEXT NOT NULL,
    boot INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    role TEXT NOT NULL,
    kind TEXT NOT NULL,
    at_ns INTEGER NOT NULL,
    peer TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;

CREATE INDEX events_by_transfer ON events (transfer, at_ns);
