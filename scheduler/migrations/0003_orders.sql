-- What is asked of an agent, until it has taken it or the request has ended.
CREATE TABLE orders (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    boot INTEGER NOT NULL, -- that start of the agent which published the request
    transfer INTEGER NOT NULL,
    kind TEXT NOT NULL,
    request TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    lease_ns INTEGER NOT NULL,
    made_ns INTEGER NOT NULL,
    UNIQUE (transfer, kind)
) STRICT;

CREATE INDEX orders_by_agent ON orders (agent, boot, number);
