-- One row has all that one start of one agent reported about one transfer in one transaction, packed
-- (scheduler/event_pack.h). The rows of a transfer are a chain from the newest to the oldest: rows
-- are only appended, and there is no index to keep. They go with their transfer.
ALTER TABLE events RENAME TO single_events;
ALTER TABLE transfers ADD COLUMN last_event INTEGER NOT NULL DEFAULT 0; -- 0: none
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    previous INTEGER NOT NULL, -- of the same transfer; 0: none
    arrived_ns INTEGER NOT NULL,
    agent TEXT NOT NULL,
    boot INTEGER NOT NULL,
    records BLOB NOT NULL
) STRICT;

UPDATE transfers SET last_event = pack_events(id); -- scheduler/store_convert.c
DROP TABLE single_events;
