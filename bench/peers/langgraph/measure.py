"""LangGraph's server in memory (`langgraph dev`): a thread for each job, a run of a one-step graph for each message."""

import os
import shutil
import time

from rig.machine import free_port
from rig.peer import PROMPT, Model, accepts, call, closed, dispatches, main, ready
from rig.processes import cpu_seconds, descendants, resident_kib, start, stop

THREADS = 50


def measure(asked, work):
    model, port, log = Model(), free_port(), work / "langgraph.log"
    folder, url = work / "graph", f"http://127.0.0.1:{port}"
    shutil.copytree(asked.installed / "graph", folder)
    environment = os.environ | {
        "MODEL_URL": model.url,
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "PATH": f"{asked.installed / 'venv/bin'}:{os.environ['PATH']}",
    }
    environment.pop("PYTHONPATH", None)
    quiet = ["--no-browser", "--no-reload", "--server-log-level", "error"]

    def serve():
        server = start(
            [asked.installed / "venv/bin/langgraph", "dev", *quiet, "--host", "127.0.0.1", "--port", port],
            log,
            cwd=folder,
            env=environment,
        )
        return server, ready(f"{url}/ok", server, log)

    server, _ = serve()
    stop(server)
    server, seconds = serve()
    time.sleep(2)
    figures = {"start_ms": seconds * 1000, "idle_memory_mb": resident_kib(server.pid, family=True) / 1024}

    def body(prompt: str) -> dict:
        return {"assistant_id": "job", "input": {"messages": [prompt]}, "multitask_strategy": "enqueue"}

    def thread() -> str:
        return call("POST", f"{url}/threads", {})["thread_id"]

    def cpu() -> float:
        return sum(cpu_seconds(pid) for pid in [server.pid, *descendants(server.pid)])

    one = thread()
    call("POST", f"{url}/threads/{one}/runs/wait", body(PROMPT))
    figures["dispatch_p50_ms"] = dispatches(
        lambda stamp: call("POST", f"{url}/threads/{one}/runs", body(f"{PROMPT} {stamp}")), lambda: model.times
    )
    # The answer comes when the run has ended. There are many threads, because runs of one thread wait for each other.
    before, paths = cpu(), [f"/threads/{thread()}/runs/wait" for _ in range(THREADS)]
    load = closed(url, paths, 8, asked.seconds, work, body(PROMPT))
    turns = load.rate * max(1, round(asked.seconds))
    figures |= {"turns_per_second": load.rate, "turn_cpu_ms": (cpu() - before) * 1000 / turns}
    paths = [f"/threads/{thread()}/runs" for _ in range(THREADS)]
    return figures | accepts(url, paths, asked.seconds, work, body("hold")) | {"durable": False}


main(measure, __doc__)
