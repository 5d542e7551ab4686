-- Failures are counted by time: those of the last hour, however many there were before.
DROP INDEX transfers_not_done;
CREATE INDEX transfers_not_done ON transfers (updated_ns, state, reason, id)
    WHERE state IN ('failed', 'cancelled', 'expired', 'lost');
