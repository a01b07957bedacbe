-- The trace context of the request that sent a message (W3C traceparent).

ALTER TABLE messages ADD COLUMN traceparent TEXT;
