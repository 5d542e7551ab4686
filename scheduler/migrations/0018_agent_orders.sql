-- Orders also about agents, which have no transfer (0), so that many agents may have one; and about the
-- transfer of a target: its number, as the target knows it (0: not yet).
CREATE TABLE agent_orders (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    boot INTEGER NOT NULL, -- that start of the agent which published the request, or fetched it
    transfer INTEGER NOT NULL,
    target INTEGER NOT NULL DEFAULT 0,
    kind TEXT NOT NULL,
    request TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    lease_ns INTEGER NOT NULL,
    made_ns INTEGER NOT NULL,
    UNIQUE (agent, boot, transfer, kind)
) STRICT;

INSERT INTO agent_orders (number, agent, boot, transfer, kind, request, attempt, lease_ns, made_ns)
    SELECT number, agent, boot, transfer, kind, request, attempt, lease_ns, made_ns FROM orders;
DROP TABLE orders;
ALTER TABLE agent_orders RENAME TO orders;
CREATE INDEX orders_by_agent ON orders (agent, boot, number);
CREATE INDEX orders_by_transfer ON orders (transfer);
