-- Where fragment_bytes is not 0: whether fragments were copied through staging memory, and what was
-- expected of writing them and of copying them (0 writes: that was no way to go).
ALTER TABLE transfers ADD COLUMN fragments_staged INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN direct_writes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN direct_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN staged_writes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN staged_ns INTEGER NOT NULL DEFAULT 0;
