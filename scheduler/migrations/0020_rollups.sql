-- What moved and ended, by time: the row of one step of time has all that moved in it, packed
-- (scheduler/rollup_pack.h). The scheduler's clock decides the step. Coarser rows are sums of finer ones.
CREATE TABLE rollups (
    kind INTEGER NOT NULL, -- scheduler/rollup.h has the numbers
    step INTEGER NOT NULL, -- seconds
    begin INTEGER NOT NULL, -- seconds since 1970
    part TEXT NOT NULL, -- of rails and pairs of rails: their agent; else ''
    amounts BLOB NOT NULL,
    times BLOB NOT NULL, -- histograms, last: a reader of the amounts alone skips their pages
    PRIMARY KEY (kind, step, begin, part)
) STRICT, WITHOUT ROWID;

-- Starts and ends of agents, and what a start changed: for a reader of a time axis.
CREATE TABLE marks (
    agent TEXT NOT NULL,
    boot INTEGER NOT NULL,
    kind TEXT NOT NULL, -- scheduler/marks.h
    at_ns INTEGER NOT NULL,
    before TEXT NOT NULL, -- empty: not known
    after TEXT NOT NULL,
    PRIMARY KEY (agent, boot, kind)
) STRICT, WITHOUT ROWID;

CREATE INDEX marks_by_time ON marks (at_ns);
