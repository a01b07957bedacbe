"""graphile-worker on PostgreSQL: a Node.js process that adds messages to the queue and processes them."""

import json
import os

from rig.peer import main, node
from rig.processes import Failed, run


def measure(asked, work):
    if not asked.database_url:
        raise Failed("needs --database-url")
    script = [node(asked), asked.installed / "queue-graphile-worker.mjs"]
    environment = os.environ | {"DATABASE_URL": asked.database_url, "NODE_ENV": "production"}
    run([*script, "start"], env=environment, timeout=60)  # creates its tables
    began = json.loads(run([*script, "start"], env=environment, timeout=60))
    figures = json.loads(run([*script, asked.seconds], env=environment, timeout=300))
    return figures | {"start_ms": began["start_ms"], "idle_memory_mb": began["node_memory_mb"], "durable": True}


main(measure, __doc__)
