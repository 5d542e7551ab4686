-- Rows go by their time, whatever the order in which they came: the clock may have jumped.
CREATE INDEX events_by_arrival ON events (arrived_ns);
CREATE INDEX transfers_ended ON transfers (updated_ns) WHERE live = 0;
