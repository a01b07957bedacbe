"""The steps of the public MCP client for Python, by HTTP and through `journeyman mcp`, in both generations of the
protocol. run.py starts the server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import mcp_types
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from program import WAIT, Server

TASKS = "io.modelcontextprotocol/tasks"
TOOLS = [
    "list_projects",
    "create_job",
    "send_message",
    "get_job",
    "list_jobs",
    "get_changes",
    "get_events",
    "cancel_job",
]


class Connection:
    """A way to the server, and the generation of the protocol: `legacy`, or `auto` for the newest one."""

    def __init__(self, program: str, url: str, key: str, transport: str, mode: str):
        self.program, self.url, self.key, self.transport, self.mode = program, url, key, transport, mode

    def __str__(self) -> str:
        return f"{self.transport}, {self.mode}"

    @asynccontextmanager
    async def client(self, key: str | None = None, **options: Any) -> AsyncIterator[Client]:
        secret = key or self.key
        options |= {"mode": self.mode, "cache": None, "read_timeout_seconds": WAIT}
        if self.transport == "stdio":
            variables = {"JOURNEYMAN_URL": self.url, "JOURNEYMAN_KEY": secret}
            server = StdioServerParameters(command=self.program, args=["mcp"], env=variables)
            async with Client(server, **options) as client:
                yield client
            return
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx2.AsyncClient(headers=headers, timeout=WAIT) as http:
            transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
            async with Client(transport, **options) as client:
                yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    [text] = result.content
    assert json.loads(text.text) == result.structured_content, result
    return result.structured_content


async def refused(client: Client, code: str, tool: str, **arguments: Any) -> str:
    """Calls a tool that refuses the arguments, and returns the text for the model."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    problem = json.loads(result.content[0].text)
    assert problem["code"] == code, problem
    return problem["error"]


async def ended(client: Client, job: str) -> dict[str, Any]:
    """Waits until a job is no longer active, and returns it. One call waits for 50 seconds at most."""
    end = time.monotonic() + WAIT
    while True:
        found = await call(client, "get_job", job=job, wait=50)
        if not found["stillActive"]:
            return found
        assert time.monotonic() < end, f"the job does not end: {found}"


async def main_job(client: Client, server: Server) -> None:
    """Creates a job, waits, sends a follow-up after a restart of the server, and reads the results."""
    assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
    assert (await call(client, "list_projects"))["projects"][0]["id"] == "shop"
    new = {"project": "shop", "prompt": "[[hold]] [[write a.txt|one]] [[say first answer]]", "labels": ["mcp"]}
    new["idempotencyKey"] = f"{id(client)}"
    created = await call(client, "create_job", **new)
    job = created["job"]["id"]
    assert created["stillActive"] and created["job"]["prLink"] is None, created
    assert (await call(client, "create_job", **new))["job"]["id"] == job, "the same key has created a second job"
    await asyncio.to_thread(server.release, job)
    done = await ended(client, job)
    assert done["job"]["status"] == "completed" and "first answer" in done["answer"]["text"], done

    await asyncio.to_thread(server.restart)

    sent = await call(client, "send_message", job=job, prompt="[[append a.txt|two]] [[say second answer]]")
    assert sent["message"]["id"] != done["message"]["id"], sent
    done = await ended(client, job)
    assert done["message"]["status"] == "finished" and "second answer" in done["answer"]["text"], done
    diff = (await call(client, "get_changes", job=job))["diff"]["text"]
    assert "+one" in diff and "+two" in diff, diff
    events, after = [], 0
    while True:
        page = await call(client, "get_events", job=job, after=after, limit=5)
        events += page["events"]
        after = page["nextAfter"]
        if not page["hasMore"]:
            break
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), events
    kinds = [event["type"] for event in events]
    assert kinds[0] == "job.created" and kinds.count("message.accepted") == 2, kinds
    listed = await call(client, "list_jobs", project="shop", status="completed", labels=["mcp"], limit=1)
    assert listed["jobs"][0]["id"] == job, listed
    await transcript(client, job)


async def transcript(client: Client, job: str) -> None:
    [template] = (await client.list_resource_templates()).resource_templates
    uri = template.uri_template.replace("{id}", job).replace("{?after}", "")
    [content] = (await client.read_resource(uri)).contents
    assert "[[append a.txt|two]]" in content.text and "| second answer" in content.text, content


async def cancel(client: Client) -> None:
    job = (await call(client, "create_job", prompt="[[sleep 3600]]"))["job"]["id"]
    canceled = await call(client, "cancel_job", job=job)
    assert canceled["job"]["status"] == "failed" or canceled["stillActive"], canceled
    done = await ended(client, job)
    assert done["job"]["status"] == "failed" and done["message"]["status"] == "cancelled", done


async def errors(connection: Connection, client: Client, read_key: str) -> None:
    await refused(client, "job_not_found", "get_job", job="job_0")
    await refused(client, "project_not_found", "create_job", project="none", prompt="x")
    assert "prompt" in await refused(client, "invalid_argument", "create_job", project="shop")
    assert "wait" in await refused(client, "invalid_argument", "get_job", job="job_0", wait=51)
    for request in (client.call_tool("no_such_tool", {}), client.read_resource("journeyman://job/job_0/transcript")):
        error = await fails(request)
        assert error.code in (mcp_types.INVALID_PARAMS, -32002), error
    async with connection.client(read_key) as reader:
        await refused(reader, "scope_missing", "create_job", project="shop", prompt="x")
        assert (await call(reader, "list_jobs"))["jobs"]
    try:
        async with connection.client("jmn_" + "x" * 38) as stranger:
            await stranger.list_tools()
    except Exception as error:
        # By HTTP, the client does not show the answer of the server.
        expected = "Server returned an error response" if connection.transport == "http" else "API key"
        assert expected in shown(error), shown(error)
    else:
        raise AssertionError("a wrong key was accepted")


async def fails(request: Any) -> MCPError:
    try:
        await request
    except MCPError as error:
        return error
    raise AssertionError("no error")


def shown(error: BaseException) -> str:
    """Returns the text of an error with those of its group: the client wraps errors several times."""
    inner = getattr(error, "exceptions", ())
    return " ".join([repr(error), *map(shown, inner)])


class Created(mcp_types.Result):
    """The result of a call that has created a task."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class TaskRequest(mcp_types.Request[dict[str, Any], str]):
    name_param = "taskId"


class TaskState(mcp_types.Result):
    """The answer to `tasks/get`."""

    result_type: str
    task_id: str
    status: str
    result: dict[str, Any] | None = None


class Tasks(ClientExtension):
    """The extension for tasks: it polls a task until it ends, and returns its result as that of the call.

    After the first poll, it releases the agents that wait.
    """

    identifier = TASKS

    def __init__(self, server: Server) -> None:
        self.server = server
        self.polls = 0

    def settings(self) -> dict[str, Any]:
        return {}

    def claims(self) -> list[ResultClaim[Created]]:
        return [ResultClaim(result_type="task", model=Created, resolve=self.resolve)]

    async def resolve(self, created: Created, context: ClaimContext) -> mcp_types.CallToolResult:
        while True:
            self.polls += 1
            request = TaskRequest(method="tasks/get", params={"taskId": created.task_id})
            state = await context.session.send_request(request, TaskState)
            if state.result is not None:
                return mcp_types.CallToolResult.model_validate(state.result)
            assert state.status == "working", state
            if self.polls == 1:
                await asyncio.to_thread(self.server.release)
            await asyncio.sleep(0.1)


async def tasks(connection: Connection, server: Server) -> None:
    extension = Tasks(server)
    async with connection.client(extensions=[extension]) as client:
        done = await call(client, "create_job", project="shop", prompt="[[hold]] [[say from a task]]")
        assert "from a task" in done["answer"]["text"] and not done["stillActive"], done
        assert extension.polls > 1, extension.polls
        job = done["job"]["id"]
        failed = await client.call_tool("send_message", {"job": job, "prompt": "[[fail on purpose]]"})
        assert failed.is_error, failed
        polls = extension.polls
        await call(client, "send_message", job=job, prompt="[[sleep 3600]]", background=True)
        assert extension.polls == polls, "a call in the background has returned a task"
        await call(client, "cancel_job", job=job)
        created = await client.session.call_tool("create_job", {"prompt": "[[sleep 3600]]"}, allow_claimed=True)
        assert isinstance(created, Created), created
        cancel = TaskRequest(method="tasks/cancel", params={"taskId": created.task_id})
        await client.session.send_request(cancel, mcp_types.EmptyResult)
        get = TaskRequest(method="tasks/get", params={"taskId": created.task_id})
        end = time.monotonic() + WAIT
        while (await client.session.send_request(get, TaskState)).status != "cancelled":
            assert time.monotonic() < end, "the task was not canceled"
            await asyncio.sleep(0.1)


async def check(connection: Connection, read_key: str, server: Server) -> None:
    async with connection.client() as client:
        version = "2025-11-25" if connection.mode == "legacy" else "2026-07-28"
        assert client.protocol_version == version, client.protocol_version
        assert client.server_info.name == "journeyman", client.server_info
        assert "agent jobs" in client.instructions, client.instructions
        await main_job(client, server)
        await cancel(client)
        await errors(connection, client, read_key)
    if connection.mode != "legacy":
        await tasks(connection, server)
    print(f"mcp: the client for Python passed ({connection})")
