-- Lists of tasks (A2A) are in the order of the last change of a message.

CREATE INDEX messages_updated ON messages (coalesce(finished_at, delivered_at, created_at) DESC, id DESC);
