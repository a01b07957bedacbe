-- The ID of the repository of each project on its code host, as it was first seen, with the address at which it was
-- seen: {"address": …, "id": …}.

ALTER TABLE projects ADD COLUMN identity TEXT;
