-- The line of the log that tells of an accepted message is made of the message's row, which knows its number there: what
-- is sent is stored once.

ALTER TABLE messages ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;

UPDATE messages SET seq = accepted.seq
FROM (SELECT data::json ->> 'messageId' AS id, seq FROM log WHERE type = 'message.accepted') AS accepted
WHERE messages.id = accepted.id;

DELETE FROM log WHERE type = 'message.accepted';

DROP INDEX messages_of_job;
CREATE INDEX messages_of_job ON messages (job, seq);
