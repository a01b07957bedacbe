-- The size of the change of a message and of its commits, as JSON; NULL if there is none or an older version ran the turn.

ALTER TABLE messages ADD COLUMN diff TEXT;
