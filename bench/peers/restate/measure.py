"""Restate: a durable virtual object for each job, messages sent one-way over HTTP; one node with default settings."""

import os
import time

from rig.machine import free_port
from rig.peer import KEYS, PROMPT, accepts, call, closed, dispatches, main, node, ready
from rig.processes import cpu_seconds, resident_kib, start, stop


def measure(asked, work):
    ports = {name: free_port() for name in ("ingress", "admin", "node", "service", "model")}
    environment = os.environ | {
        "RESTATE_INGRESS__BIND_PORT": str(ports["ingress"]),
        "RESTATE_ADMIN__BIND_PORT": str(ports["admin"]),
        "RESTATE_BIND_PORT": str(ports["node"]),
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "warn",
    }
    # The program itself and not its Node.js wrapper, whose start must not be measured.
    binary = next(asked.installed.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
    log = work / "restate.log"

    def serve():
        return start([binary, "--base-dir", work / "data", "--no-logo", "--node-name", "bench"], log, env=environment)

    ingress, admin = f"http://127.0.0.1:{ports['ingress']}", f"http://127.0.0.1:{ports['admin']}"
    model = f"http://127.0.0.1:{ports['model']}"
    service_log = work / "service.log"
    service = start(
        [node(asked), asked.installed / "service.mjs", ports["service"], ports["model"]],
        service_log,
        env=os.environ | {"NODE_ENV": "production", "RESTATE_LOGGING": "ERROR"},
    )
    ready(f"{model}/", service, service_log)
    server = serve()
    ready(f"{ingress}/restate/health", server, log)
    ready(f"{admin}/health", server, log)
    call("POST", f"{admin}/deployments", {"uri": f"http://127.0.0.1:{ports['service']}"})
    call("POST", f"{ingress}/job/warm/message", {"prompt": PROMPT})

    stop(server)
    begun = time.monotonic()
    server = serve()
    ready(f"{ingress}/restate/health", server, log)
    # The health check succeeds before Restate accepts work: the start ends with the first accepted message.
    while True:
        try:
            call("POST", f"{ingress}/job/warm/message/send", {"prompt": PROMPT}, timeout=2)
            break
        except RuntimeError:
            time.sleep(0.005)
    figures = {"start_ms": (time.monotonic() - begun) * 1000}
    time.sleep(2)
    figures["idle_memory_mb"] = resident_kib(server.pid) / 1024

    places = iter(range(10**6))

    def send(stamp):
        call("POST", f"{ingress}/job/dispatch-{next(places)}/message/send", {"prompt": PROMPT, "stamp": stamp})

    figures["dispatch_p50_ms"] = dispatches(send, lambda: call("GET", f"{model}/times"))

    # A call, not a send: it is answered when the turn has ended, like a client that waits for its turn.
    before = cpu_seconds(server.pid) + cpu_seconds(service.pid)
    turns = [f"/job/turn-{number}/message" for number in range(KEYS)]
    load = closed(ingress, turns, 8, asked.seconds, work, {"prompt": PROMPT})
    used = cpu_seconds(server.pid) + cpu_seconds(service.pid) - before
    figures |= {"turns_per_second": load.rate, "turn_cpu_ms": used * 1000 / (load.rate * max(1, round(asked.seconds)))}

    paths = [f"/job/accept-{number}/message/send" for number in range(KEYS)]
    return figures | accepts(ingress, paths, asked.seconds, work, {"prompt": PROMPT, "hold": True}) | {"durable": True}


main(measure, __doc__)
