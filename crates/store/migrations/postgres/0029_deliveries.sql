-- The fencing token of deliveries, which, unlike the attempts, never starts over; whether a delivery was requested again
-- during its attempt; and the position in the feed up to which there are deliveries for all webhooks. A webhook gets the
-- events after its own cursor.

ALTER TABLE deliveries ADD COLUMN claims BIGINT NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN again BIGINT NOT NULL DEFAULT 0; -- 1: requested again during the attempt
ALTER TABLE feed_position ADD COLUMN made BIGINT NOT NULL DEFAULT 0;

CREATE INDEX deliveries_pending ON deliveries (webhook, position) WHERE state = 'pending';
CREATE INDEX deliveries_failed ON deliveries (webhook, number) WHERE state = 'failed';
CREATE INDEX deliveries_leased ON deliveries (webhook, leased_until) WHERE state = 'pending' AND leased_until IS NOT NULL;
