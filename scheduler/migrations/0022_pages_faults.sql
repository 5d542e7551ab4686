-- The row with the end of a transfer at one of its agents has its page tables, too, where they were asked
-- for (common/trace/page_runs.h). Empty: the agent did not send them.
ALTER TABLE events ADD COLUMN pages BLOB NOT NULL DEFAULT x'';

-- What broke, by what agents and schedulers know (common/trace/faults.h): for a reader of a time axis, and
-- for recordings.
CREATE TABLE faults (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    agent TEXT NOT NULL, -- empty: of no agent
    boot INTEGER NOT NULL,
    rail INTEGER NOT NULL, -- of the agent; -1: of no single one
    peer TEXT NOT NULL, -- the agent at the other end; empty: of no single one
    from_ns INTEGER NOT NULL,
    until_ns INTEGER NOT NULL, -- 0: it goes on
    amount INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;

CREATE INDEX faults_by_time ON faults (from_ns);
CREATE INDEX faults_of_agent ON faults (agent, kind, rail, peer, from_ns);
CREATE INDEX faults_open ON faults (agent, kind) WHERE until_ns = 0;
