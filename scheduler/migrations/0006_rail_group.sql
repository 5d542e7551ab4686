-- Which of its agent's rail groups a rail belongs to.
ALTER TABLE rails ADD COLUMN rail_group INTEGER NOT NULL DEFAULT 0;
