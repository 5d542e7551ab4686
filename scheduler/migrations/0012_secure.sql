-- Of an agent: its peers prove an identity. Agents of before did not ask.
ALTER TABLE agents ADD COLUMN secure INTEGER NOT NULL DEFAULT 0;
