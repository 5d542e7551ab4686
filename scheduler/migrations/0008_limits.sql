-- Of each write: runs of bytes at either end (4294967295: any number), its bytes (0: not known), and
-- whether they are narrower than what the cards take, as was measured.
ALTER TABLE transfers ADD COLUMN pieces_local INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN pieces_remote INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN write_bytes_max INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transfers ADD COLUMN calibrated INTEGER NOT NULL DEFAULT 0;
