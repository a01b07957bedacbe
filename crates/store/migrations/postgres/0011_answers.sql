-- The agent's answer to each message.

ALTER TABLE messages ADD COLUMN answer TEXT -- the final text of the turn; null: none
