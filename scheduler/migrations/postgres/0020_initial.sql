-- What SQLite's migrations 1 to 20 lead to. Both kinds of database have the same tables and columns from
-- here on; later migrations come in two files with one number.
--
-- Ids of transfers and events are microseconds since 1970, made to grow (scheduler/store_postgres.c):
-- a partition by id is one by time. Texts are ordered by their bytes, as SQLite's are.

CREATE TABLE version (
    number BIGINT NOT NULL
);
INSERT INTO version VALUES (0);

CREATE FUNCTION instr(whole TEXT, part TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT pg_catalog.strpos(whole, part)::BIGINT';
CREATE FUNCTION max(one BIGINT, other BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT GREATEST(one, other)';
CREATE FUNCTION min(one BIGINT, other BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT LEAST(one, other)';
CREATE FUNCTION length(number BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT pg_catalog.length(number::TEXT)::BIGINT';

-- One row: who holds its lock writes. The id that was given last, and the scheduler that gave it.
CREATE TABLE writer (
    last_id BIGINT NOT NULL,
    last_writer BIGINT NOT NULL
);
INSERT INTO writer VALUES (0, 0);

-- The schedulers of this database, by numbers that each draws at its start; the server's clock.
CREATE TABLE schedulers (
    id BIGINT PRIMARY KEY,
    seen_us BIGINT NOT NULL
);

-- What schedulers tell each other (scheduler/store_news.h), for a minute. After a crash of the server
-- it is empty, and each scheduler reads again what it knows.
CREATE UNLOGGED TABLE news (
    seq BIGINT PRIMARY KEY,
    scheduler BIGINT NOT NULL,
    transfer BIGINT NOT NULL,
    from_state TEXT COLLATE "C" NOT NULL, -- empty: it was not there
    to_state TEXT COLLATE "C" NOT NULL,
    held_before BIGINT NOT NULL,
    held BIGINT NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    report BYTEA NOT NULL -- of an agent, without events; empty: of a transfer
);

-- How far kvrail-scheduler --import has come with each file: a transfer's ordinal there, and the last
-- id that it gave here; transfers that it moved, and those that were there already.
CREATE TABLE imports (
    source TEXT COLLATE "C" PRIMARY KEY,
    last_ordinal BIGINT NOT NULL,
    last_id BIGINT NOT NULL,
    moved BIGINT NOT NULL,
    there BIGINT NOT NULL
);

-- The partitions of transfers and events: ids from `lower` on, up to `upper`, which does not count.
CREATE TABLE periods (
    lower BIGINT PRIMARY KEY,
    upper BIGINT NOT NULL
);

CREATE TABLE agents (
    name TEXT COLLATE "C" NOT NULL,
    boot BIGINT NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    host TEXT COLLATE "C" NOT NULL,
    pid BIGINT NOT NULL,
    listen TEXT COLLATE "C" NOT NULL,
    provider TEXT COLLATE "C" NOT NULL,
    transfers_live BIGINT NOT NULL,
    peers_up BIGINT NOT NULL,
    dropped BIGINT NOT NULL,
    counters TEXT COLLATE "C" NOT NULL,
    stopped BIGINT NOT NULL,
    seen_ns BIGINT NOT NULL,
    peers_warm BIGINT NOT NULL DEFAULT 0,
    secure BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (name)
);

CREATE TABLE rails (
    agent TEXT COLLATE "C" NOT NULL REFERENCES agents (name) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    provider TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    epoch BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    speed_bps BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    writes BIGINT NOT NULL,
    rail_group BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (agent, position)
);

CREATE TABLE engines (
    agent TEXT COLLATE "C" NOT NULL REFERENCES agents (name) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    uuid BYTEA NOT NULL,
    generation BIGINT NOT NULL,
    tp BIGINT NOT NULL,
    tp_size BIGINT NOT NULL,
    pp BIGINT NOT NULL,
    pp_size BIGINT NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    region_count BIGINT NOT NULL,
    region_bytes BIGINT NOT NULL,
    PRIMARY KEY (agent, position)
);

CREATE TABLE positions (
    agent TEXT COLLATE "C" NOT NULL,
    boot BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    updated_ns BIGINT NOT NULL,
    PRIMARY KEY (agent, boot)
);

CREATE TABLE transfers (
    ordinal BIGINT NOT NULL,
    id BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    live BIGINT NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    request TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    source_engine BYTEA NOT NULL,
    target_engine BYTEA NOT NULL,
    tokens BIGINT NOT NULL,
    skip_tokens BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    layers BIGINT NOT NULL,
    chunks BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    updated_ns BIGINT NOT NULL,
    source_agent TEXT COLLATE "C" NOT NULL,
    source_boot BIGINT NOT NULL,
    source_rails BIGINT NOT NULL,
    source_outcome TEXT COLLATE "C" NOT NULL,
    source_lost BIGINT NOT NULL,
    source_detail TEXT COLLATE "C" NOT NULL,
    source_opened_ns BIGINT NOT NULL,
    source_matched_ns BIGINT NOT NULL,
    source_granted_ns BIGINT NOT NULL,
    source_first_ready_ns BIGINT NOT NULL,
    source_last_ready_ns BIGINT NOT NULL,
    source_first_post_ns BIGINT NOT NULL,
    source_last_post_ns BIGINT NOT NULL,
    source_first_land_ns BIGINT NOT NULL,
    source_last_land_ns BIGINT NOT NULL,
    source_failing_ns BIGINT NOT NULL,
    source_ended_ns BIGINT NOT NULL,
    target_agent TEXT COLLATE "C" NOT NULL,
    target_boot BIGINT NOT NULL,
    target_rails BIGINT NOT NULL,
    target_outcome TEXT COLLATE "C" NOT NULL,
    target_lost BIGINT NOT NULL,
    target_detail TEXT COLLATE "C" NOT NULL,
    target_opened_ns BIGINT NOT NULL,
    target_matched_ns BIGINT NOT NULL,
    target_granted_ns BIGINT NOT NULL,
    target_first_ready_ns BIGINT NOT NULL,
    target_last_ready_ns BIGINT NOT NULL,
    target_first_post_ns BIGINT NOT NULL,
    target_last_post_ns BIGINT NOT NULL,
    target_first_land_ns BIGINT NOT NULL,
    target_last_land_ns BIGINT NOT NULL,
    target_failing_ns BIGINT NOT NULL,
    target_ended_ns BIGINT NOT NULL,
    source_tp BIGINT NOT NULL DEFAULT 0,
    source_pp BIGINT NOT NULL DEFAULT 0,
    target_tp BIGINT NOT NULL DEFAULT 0,
    target_pp BIGINT NOT NULL DEFAULT 0,
    pieces BIGINT NOT NULL DEFAULT 0,
    fragment_bytes BIGINT NOT NULL DEFAULT 0,
    source_path TEXT COLLATE "C" NOT NULL DEFAULT '',
    target_path TEXT COLLATE "C" NOT NULL DEFAULT '',
    fragments_staged BIGINT NOT NULL DEFAULT 0,
    direct_writes BIGINT NOT NULL DEFAULT 0,
    direct_ns BIGINT NOT NULL DEFAULT 0,
    staged_writes BIGINT NOT NULL DEFAULT 0,
    staged_ns BIGINT NOT NULL DEFAULT 0,
    pieces_local BIGINT NOT NULL DEFAULT 0,
    pieces_remote BIGINT NOT NULL DEFAULT 0,
    write_bytes_max BIGINT NOT NULL DEFAULT 0,
    calibrated BIGINT NOT NULL DEFAULT 0,
    tenant TEXT COLLATE "C" NOT NULL DEFAULT 'default',
    last_event BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (ordinal)
) PARTITION BY RANGE (ordinal);

CREATE TABLE events (
    id BIGINT NOT NULL,
    previous BIGINT NOT NULL,
    arrived_ns BIGINT NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    boot BIGINT NOT NULL,
    records BYTEA NOT NULL,
    spans BYTEA NOT NULL DEFAULT '',
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);

CREATE TABLE orders (
    number BIGINT GENERATED BY DEFAULT AS IDENTITY,
    agent TEXT COLLATE "C" NOT NULL,
    boot BIGINT NOT NULL,
    transfer BIGINT NOT NULL,
    target BIGINT NOT NULL DEFAULT 0,
    kind TEXT COLLATE "C" NOT NULL,
    request TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    lease_ns BIGINT NOT NULL,
    made_ns BIGINT NOT NULL,
    PRIMARY KEY (number),
    UNIQUE (agent, boot, transfer, kind)
);

CREATE TABLE audit (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    at_ns BIGINT NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    via TEXT COLLATE "C" NOT NULL,
    object TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE rollups (
    kind BIGINT NOT NULL,
    step BIGINT NOT NULL,
    begin BIGINT NOT NULL,
    part TEXT COLLATE "C" NOT NULL,
    amounts BYTEA NOT NULL,
    times BYTEA NOT NULL,
    PRIMARY KEY (kind, step, begin, part)
);

CREATE TABLE marks (
    agent TEXT COLLATE "C" NOT NULL,
    boot BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    at_ns BIGINT NOT NULL,
    before TEXT COLLATE "C" NOT NULL,
    after TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (agent, boot, kind)
);

CREATE INDEX transfers_by_id ON transfers (id);
CREATE INDEX transfers_by_state ON transfers (state, ordinal);
CREATE INDEX transfers_live ON transfers (ordinal) WHERE live = 1;
CREATE INDEX transfers_by_request ON transfers (request, ordinal);
CREATE INDEX audit_by_time ON audit (at_ns);
CREATE INDEX transfers_by_tenant ON transfers (tenant, ordinal);
CREATE INDEX transfers_by_tenant_state ON transfers (tenant, state, ordinal);
CREATE INDEX transfers_ended ON transfers (live, updated_ns, ordinal) WHERE live = 0;
CREATE INDEX ended_by_source ON transfers (live, source_agent, updated_ns, ordinal) WHERE live = 0;
CREATE INDEX ended_by_target ON transfers (live, target_agent, updated_ns, ordinal) WHERE live = 0;
CREATE INDEX ended_by_source_engine ON transfers (live, source_engine, updated_ns, ordinal) WHERE live = 0;
CREATE INDEX ended_by_target_engine ON transfers (live, target_engine, updated_ns, ordinal) WHERE live = 0;
CREATE INDEX ended_by_reason ON transfers (live, reason, updated_ns, ordinal) WHERE live = 0 AND reason <> 'ok';
CREATE INDEX ended_by_path ON transfers (live, max(
    instr(' host dmabuf hmem local staged', source_path),
    instr(' host dmabuf hmem local staged', target_path)), updated_ns, ordinal) WHERE live = 0;
CREATE INDEX ended_by_digits ON transfers (live, min(length(
    CASE WHEN target_opened_ns <> 0 AND target_ended_ns >= target_opened_ns
    THEN target_ended_ns - target_opened_ns
    WHEN source_opened_ns <> 0 AND source_ended_ns >= source_opened_ns
    THEN source_ended_ns - source_opened_ns ELSE -1 END), 11), updated_ns, ordinal) WHERE live = 0;
CREATE INDEX transfers_not_done ON transfers (updated_ns, state, reason, id)
    WHERE state = 'failed' OR state = 'cancelled' OR state = 'expired' OR state = 'lost';
CREATE INDEX orders_by_agent ON orders (agent, boot, number);
CREATE INDEX orders_by_transfer ON orders (transfer);
CREATE INDEX marks_by_time ON marks (at_ns);
