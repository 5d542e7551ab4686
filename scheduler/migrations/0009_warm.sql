-- Of a prefill-agent's peers, those with which every pair of rails is connected.
ALTER TABLE agents ADD COLUMN peers_warm INTEGER NOT NULL DEFAULT 0;
