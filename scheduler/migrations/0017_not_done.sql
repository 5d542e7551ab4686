-- For IN, SQLite builds a tree with the four words at each write to the table.
DROP INDEX transfers_not_done;
CREATE INDEX transfers_not_done ON transfers (updated_ns, state, reason, id)
    WHERE state = 'failed' OR state = 'cancelled' OR state = 'expired' OR state = 'lost';
