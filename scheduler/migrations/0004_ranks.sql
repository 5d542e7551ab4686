-- Which rank of each engine; what is contiguous at both ends, and the shortest of it where that is
-- below the source agent's fragment_bytes_min (else 0).
ALTER TABLE transfers ADD COLUMN source_tp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN source_pp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN target_tp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN target_pp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN pieces INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN fragment_bytes INTEGER NOT NULL DEFAULT 0;
