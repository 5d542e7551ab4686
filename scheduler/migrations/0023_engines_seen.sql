-- How the pages of an attached engine are made (common/trace/geometry.h). Empty: not known.
ALTER TABLE engines ADD COLUMN geometry TEXT NOT NULL DEFAULT '';

-- Each rank of an engine that an agent has reported, also when it has gone: transfers name it.
CREATE TABLE engines_seen (
    id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    uuid BLOB NOT NULL,
    generation INTEGER NOT NULL,
    tp INTEGER NOT NULL,
    tp_size INTEGER NOT NULL,
    pp INTEGER NOT NULL,
    pp_size INTEGER NOT NULL,
    model TEXT NOT NULL,
    region_count INTEGER NOT NULL, -- with bytes and geometry: when it had lent most regions
    region_bytes INTEGER NOT NULL,
    geometry TEXT NOT NULL,
    first_ns INTEGER NOT NULL,
    last_ns INTEGER NOT NULL -- to within two minutes
) STRICT;

CREATE UNIQUE INDEX engines_seen_by_rank ON engines_seen (agent, uuid, tp, pp);
CREATE INDEX engines_seen_by_last ON engines_seen (last_ns);
