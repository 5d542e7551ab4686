-- Transfers are looked for by what they were; the newest ends come first. Only an ended transfer has
-- an entry: one insert for each, however often its row changed before. With `live`, which is 0, the
-- index alone answers.
DROP INDEX transfers_ended;
CREATE INDEX transfers_ended ON transfers (live, updated_ns) WHERE live = 0;
CREATE INDEX ended_by_source ON transfers (live, source_agent, updated_ns) WHERE live = 0;
CREATE INDEX ended_by_target ON transfers (live, target_agent, updated_ns) WHERE live = 0;
CREATE INDEX ended_by_source_engine ON transfers (live, source_engine, updated_ns) WHERE live = 0;
CREATE INDEX ended_by_target_engine ON transfers (live, target_engine, updated_ns) WHERE live = 0;
CREATE INDEX ended_by_reason ON transfers (live, reason, updated_ns) WHERE live = 0 AND reason <> 'ok';
-- The less direct of the two paths: its place in this list.
CREATE INDEX ended_by_path ON transfers (live, max(
    instr(' host dmabuf hmem local staged', source_path),
    instr(' host dmabuf hmem local staged', target_path)), updated_ns) WHERE live = 0;
-- The digits of its duration in nanoseconds: 9 from 0.1 s on, 10 from 1 s on, 11 from 10 s on.
CREATE INDEX ended_by_digits ON transfers (live, min(length(
    CASE WHEN target_opened_ns <> 0 AND target_ended_ns >= target_opened_ns
    THEN target_ended_ns - target_opened_ns
    WHEN source_opened_ns <> 0 AND source_ended_ns >= source_opened_ns
    THEN source_ended_ns - source_opened_ns ELSE -1 END), 11), updated_ns) WHERE live = 0;
