-- How the bytes of each side got between its pages and the wire; empty: nothing was moved.
ALTER TABLE transfers ADD COLUMN source_path TEXT NOT NULL DEFAULT '';
ALTER TABLE transfers ADD COLUMN target_path TEXT NOT NULL DEFAULT '';
