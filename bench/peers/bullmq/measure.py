"""BullMQ on a Redis that syncs its log before each answer."""

import json
import os
import subprocess
import time

from rig.machine import Skip, free_port, need
from rig.peer import main, node
from rig.processes import Failed, resident_kib, run, start, stop


def measure(asked, work):
    try:
        program = need("redis-server")
    except Skip as error:
        raise Failed(str(error)) from error
    port, log = free_port(), work / "redis.log"
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]

    def serve() -> tuple[subprocess.Popen, float]:
        begun = time.monotonic()
        here = ["--bind", "127.0.0.1", "--port", port, "--dir", work]
        server = start([program, *here, *durable], log)
        while time.monotonic() < begun + 30:
            pong = subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True, text=True)
            if pong.stdout.strip() == "PONG":
                return server, time.monotonic() - begun
        raise Failed("Redis did not start")

    script = [node(asked), asked.installed / "queue-bullmq.mjs"]
    environment = os.environ | {"REDIS_PORT": str(port), "NODE_ENV": "production"}
    server, _ = serve()
    run([*script, "start"], env=environment, timeout=60)
    stop(server)
    server, seconds = serve()
    began = json.loads(run([*script, "start"], env=environment, timeout=60))
    memory = resident_kib(server.pid) / 1024 + began["node_memory_mb"]
    figures = json.loads(run([*script, asked.seconds], env=environment, timeout=300))
    # The start of Redis, and then that of a process that uses it.
    return figures | {"start_ms": seconds * 1000 + began["start_ms"], "idle_memory_mb": memory, "durable": True}


main(measure, __doc__)
