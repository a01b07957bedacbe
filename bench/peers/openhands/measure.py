"""OpenHands' agent server: a conversation for each job, with its real agent, without tools, on a scripted model."""

import itertools
import os
import time

from rig.clients import turns
from rig.machine import free_port
from rig.peer import PROMPT, Model, accepts, call, dispatches, main, ready
from rig.processes import Failed, cpu_seconds, descendants, resident_kib, start, stop

CONVERSATIONS = 16


def measure(asked, work):
    model, port, log = Model(), free_port(), work / "openhands.log"
    url = f"http://127.0.0.1:{port}"
    environment = os.environ | {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENHANDS_SUPPRESS_BANNER": "1",
        "OH_SECRET_KEY": "0" * 32,
        "OH_ENABLE_VSCODE": "false",
        "OH_PRELOAD_TOOLS": "false",
        "LOG_LEVEL": "ERROR",
        "HOME": str(work),
        "TMPDIR": str(work),
    }
    environment.pop("PYTHONPATH", None)

    def serve():
        argv = [asked.installed / "venv/bin/agent-server", "--host", "127.0.0.1", "--port", port]
        server = start(argv, log, cwd=work, env=environment)
        return server, ready(f"{url}/health", server, log)

    server, _ = serve()
    stop(server)
    server, seconds = serve()
    time.sleep(2)
    figures = {"start_ms": seconds * 1000, "idle_memory_mb": resident_kib(server.pid, family=True) / 1024}

    def conversation() -> str:
        llm = {"model": "openai/scripted", "base_url": f"{model.url}/v1", "api_key": "none", "usage_id": "bench"}
        workspace = {"kind": "LocalWorkspace", "working_dir": str(work / "workspace")}
        made = call(
            "POST",
            f"{url}/api/conversations",
            {"agent": {"kind": "Agent", "llm": llm, "tools": []}, "workspace": workspace},
        )
        return f"/api/conversations/{made['id']}"

    def message(text: str, run: bool) -> dict:
        return {"role": "user", "content": [{"type": "text", "text": text}], "run": run}

    def finish(path: str) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            status = call("GET", url + path)["execution_status"]
            if status in ("finished", "error", "stuck"):
                if status != "finished":
                    raise Failed(f"a conversation is {status}")
                return
            time.sleep(0.02)
        raise Failed("a conversation did not finish in a minute")

    def turn(path: str, text: str = PROMPT) -> None:
        call("POST", f"{url}{path}/events", message(text, run=True))

    one = conversation()
    turn(one)
    finish(one)

    def send(stamp: str) -> None:
        # Wait for the turn before: a running conversation finds a new message by itself, without a dispatch.
        finish(one)
        turn(one, f"{PROMPT} {stamp}")

    figures["dispatch_p50_ms"] = dispatches(send, lambda: model.times)

    mine = [conversation() for _ in range(8)]

    stamps = itertools.count(1000)

    def once(number: int) -> None:
        stamp = f"stamp-{next(stamps)}"
        turn(mine[number], f"{PROMPT} {stamp}")
        # After this turn is accepted, the status may still be `finished` from the turn before.
        while stamp not in model.times:
            time.sleep(0.005)
        finish(mine[number])

    before = sum(cpu_seconds(pid) for pid in [server.pid, *descendants(server.pid)])
    done = turns(8, asked.seconds, once)
    used = sum(cpu_seconds(pid) for pid in [server.pid, *descendants(server.pid)]) - before
    figures |= {"turns_per_second": done.rate, "turn_cpu_ms": used * 1000 / len(done.ends)}
    paths = [f"{conversation()}/events" for _ in range(CONVERSATIONS)]
    # Without a run, a message is only stored.
    return figures | accepts(url, paths, asked.seconds, work, message(PROMPT, run=False)) | {"durable": False}


main(measure, __doc__)
