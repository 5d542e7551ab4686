-- The row with the end of a transfer at one of its agents has when each layer passed there and what
-- each rail carried, packed (common/trace/spans.h). Empty: the agent did not send it.
ALTER TABLE events ADD COLUMN spans BLOB NOT NULL DEFAULT x'';
