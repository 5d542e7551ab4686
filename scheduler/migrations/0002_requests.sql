-- People ask for a request by the beginning of its id.
CREATE INDEX transfers_by_request ON transfers (request);
