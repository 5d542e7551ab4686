-- Which scheduler takes the reports of an agent, and what its start gave beside the defaults
-- ("name=value name=value"). Empty: not known.
ALTER TABLE agents ADD COLUMN scheduler TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN options TEXT NOT NULL DEFAULT '';
