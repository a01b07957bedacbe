"""The asynchronous client, which is the source of the synchronous one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from journeyman_client import (
    AsyncJourneyman,
    JobBusyError,
    Journeyman,
    RequestTimeoutError,
    WaitTimeoutError,
    models,
)

from .conftest import LONG, WAIT, Server
from .proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def run(server: Server, test: Callable[[AsyncJourneyman], Awaitable[None]], url: str = "") -> None:
    async def with_client() -> None:
        async with AsyncJourneyman(url or server.url, server.key, timeout=WAIT) as client:
            await test(client)

    asyncio.run(with_client())


def test_jobs_at_once(server: Server) -> None:
    async def test(client: AsyncJourneyman) -> None:
        prompts = ["[[say one]]", "[[say two]]", "[[say three]]"]
        jobs = await asyncio.gather(
            *(client.jobs.create("shop", prompt=text, labels=["async"]) for text in prompts)
        )
        await asyncio.gather(*(job.wait(timeout=WAIT) for job in jobs))
        assert {job.status for job in jobs} == {"completed"}
        asked = await asyncio.gather(
            *(job.ask(f"[[say more of {job.id}]]", timeout=WAIT) for job in jobs)
        )
        for job, message in zip(jobs, asked, strict=True):
            assert job.id in (message.answer or "")
            assert message.answer == await job.answer()
            assert await job.message(message.id) == message
        sent = await jobs[0].send("[[say two at once]]"), await jobs[0].send("[[say two]]")
        assert len({message.id for message in sent}) == 2
        await asyncio.gather(*(message.wait(timeout=WAIT) for message in sent))
        assert (jobs[0].status, sent[0].job) == ("completed", jobs[0])
        listed = [job.id async for job in client.jobs.list("shop", label="async", page_size=2)]
        assert sorted(listed) == sorted(job.id for job in jobs)
        assert [len(p.items) async for p in jobs[0].messages().pages()] == [4]
        assert (await client.projects.get("shop")).id == "shop"

    run(server, test)


def test_errors(server: Server) -> None:
    async def test(client: AsyncJourneyman) -> None:
        job = await client.jobs.create("shop", prompt=LONG)
        with pytest.raises(JobBusyError):
            await job.send("Now", delivery="reject")
        with pytest.raises(WaitTimeoutError):
            await job.wait(timeout=0.2)
        impatient = client.with_options(timeout=0.01, max_retries=1)
        with pytest.raises(RequestTimeoutError):
            await impatient.request("GET", f"/v2/agent/shop/job/{job.id}", query={"wait": 5})
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(job.wait(), 0.2)
        await job.archive()

    run(server, test)


def test_a_lost_answer_creates_no_second_job(server: Server, proxy: Proxy) -> None:
    async def test(client: AsyncJourneyman) -> None:
        proxy.drops = 1
        job = await client.jobs.create("shop", prompt="[[say hi]]", labels=["async-lost"])
        assert [one.id async for one in client.jobs.list(label="async-lost")] == [job.id]

    run(server, test, proxy.url)
    assert proxy.drops == 0


def test_streams(server: Server, client: Journeyman, proxy: Proxy, quiet_project: str) -> None:
    async def test(unreliable: AsyncJourneyman) -> None:
        async with unreliable.events.stream(quiet_project) as feed:
            await feed._begin()
            prompt = "[[say first]] [[hold]] [[say second]]"
            job = await unreliable.jobs.create(quiet_project, prompt=prompt)
            seen = []
            async for event in job.stream_events():
                seen.append(event.seq)
                if isinstance(event, models.EventRunStarted):
                    proxy.cut()
                    await asyncio.to_thread(server.release, job.id)
            assert seen == [event.seq async for event in job.events()]
            types = []
            async for update in feed:
                types.append(update.type)
                if update.type == "job.completed":
                    break
        assert types[0] == "job.created"
        assert [update async for update in feed] == []

        proxy.cut_after = 1500
        expected = [event.seq for event in client.jobs.events(quiet_project, job.id)]
        async with job.stream_events(follow=True) as stream:
            assert [(await anext(stream)).seq for _ in expected] == expected

    run(server, test, proxy.url)
    assert proxy.connections > 3
