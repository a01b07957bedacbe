"""Calls the server with the public A2A client for Python, as server.py starts it."""

import asyncio
import os
import time
from contextlib import asynccontextmanager

import httpx
from a2a.client import A2AClientError, Client, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from program import WAIT

URL = os.environ["A2A_URL"]
KEY = os.environ["A2A_KEY"]
READ_KEY = os.environ["A2A_READ_KEY"]


@asynccontextmanager
async def client(key: str = KEY, **config: bool):
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=WAIT) as http:
        factory = ClientFactory(ClientConfig(httpx_client=http, **config))
        yield await factory.create_from_url(URL)


def request(identifier: str, text: str, **fields: str) -> SendMessageRequest:
    parts = [Part(text=text)]
    return SendMessageRequest(message=Message(message_id=identifier, role=Role.ROLE_USER, parts=parts, **fields))


async def send(to: Client, message: SendMessageRequest) -> Task:
    """Sends a message without a stream."""
    [answer] = [answer async for answer in to.send_message(message)]
    return answer.task


async def polled(to: Client, task: Task) -> Task:
    """Returns the task when it has ended."""
    end = time.monotonic() + WAIT
    while task.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING):
        assert time.monotonic() < end, f"the task did not end: {task}"
        await asyncio.sleep(0.1)
        task = await to.get_task(GetTaskRequest(id=task.id))
    return task


async def fails(kind: type[Exception], call) -> Exception:
    try:
        await call
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def texts(task: Task) -> dict[str, str]:
    return {artifact.name: artifact.parts[0].text for artifact in task.artifacts}


async def blocking_and_polling() -> None:
    async with client(streaming=False) as blocking, client(streaming=False, polling=True) as polling:
        begin = time.monotonic()
        first = await send(blocking, request("py-1", "Add a page [[write a.txt|one]] [[say done]]"))
        # The server answers when the task has ended, or after 50 seconds.
        has_ended = first.status.state == TaskState.TASK_STATE_COMPLETED
        assert has_ended or time.monotonic() - begin >= 50, first
        first = await polled(polling, first)
        assert first.status.state == TaskState.TASK_STATE_COMPLETED, first
        assert "done" in texts(first)["answer"] and "+one" in texts(first)["diff"], first
        again = await send(blocking, request("py-1", "Add a page [[write a.txt|one]] [[say done]]"))
        assert again.id == first.id
        follow_up = request("py-2", "More [[append a.txt|two]]", context_id=first.context_id)
        sent = await send(polling, follow_up)
        assert sent.context_id == first.context_id and sent.id != first.id
        second = await polled(polling, sent)
        assert second.status.state == TaskState.TASK_STATE_COMPLETED and "+two" in texts(second)["diff"], second
        listed = await polling.list_tasks(ListTasksRequest(context_id=first.context_id, page_size=1))
        assert listed.total_size == 2 and listed.tasks[0].id == second.id and listed.next_page_token, listed
        rest = ListTasksRequest(context_id=first.context_id, page_size=1, page_token=listed.next_page_token)
        assert [task.id for task in (await polling.list_tasks(rest)).tasks] == [first.id]
        card = await polling.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert "project:shop" in [skill.id for skill in card.skills], card


async def streaming() -> None:
    async with client() as streams, client(streaming=False, polling=True) as polling:
        events = [event async for event in streams.send_message(request("py-3", "[[say hello]] [[write b.txt|b]]"))]
        assert events[0].HasField("task") and events[-1].HasField("status_update"), events
        assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, events
        names = [event.artifact_update.artifact.name for event in events if event.HasField("artifact_update")]
        assert names == ["answer", "result", "diff"], names

        task = await send(polling, request("py-4", "[[sleep 3600]]"))
        seen = []

        async def follow() -> None:
            async for event in streams.subscribe(SubscribeToTaskRequest(id=task.id)):
                seen.append(event)

        following = asyncio.create_task(follow())
        while not seen and not following.done():
            await asyncio.sleep(0.05)
        canceled = await polling.cancel_task(CancelTaskRequest(id=task.id))
        assert canceled.status.state == TaskState.TASK_STATE_CANCELED, canceled
        await asyncio.wait_for(following, WAIT)
        assert seen[-1].status_update.status.state == TaskState.TASK_STATE_CANCELED, seen
        await fails(TaskNotCancelableError, polling.cancel_task(CancelTaskRequest(id=task.id)))
        finished = request("py-5", "x", task_id=task.id)
        await fails(UnsupportedOperationError, send(polling, finished))


async def errors() -> None:
    async with client(streaming=False, polling=True) as own:
        await fails(TaskNotFoundError, own.get_task(GetTaskRequest(id="msg_0")))
        data = request("py-6", "x")
        data.message.parts[0].url = "https://example.com/a.png"
        await fails(ContentTypeNotSupportedError, send(own, data))
    async with client("jmn_" + "x" * 40, streaming=False) as unknown:
        error = await fails(A2AClientError, unknown.get_task(GetTaskRequest(id="msg_0")))
        assert "401" in str(error), error
    async with client(READ_KEY, streaming=False, polling=True) as reader:
        error = await fails(A2AClientError, send(reader, request("py-7", "x")))
        assert "403" in str(error), error
        assert (await reader.list_tasks(ListTasksRequest())).total_size > 0


async def main() -> None:
    await blocking_and_polling()
    await streaming()
    await errors()
    print("a2a: the client for Python passed")


asyncio.run(main())
