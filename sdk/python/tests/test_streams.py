from __future__ import annotations

import threading
import time

import pytest

from journeyman_client import (
    BadRequestError,
    ConnectionFailedError,
    CursorExpiredError,
    Job,
    JobNotFoundError,
    Journeyman,
    models,
)

from .conftest import WAIT, Clock, Server
from .proxy import Proxy

SAY = " ".join(f"[[say word {n}]]" for n in range(20))


def completed(client: Journeyman, prompt: str, project: str = "shop") -> Job:
    job = client.jobs.create(project, prompt=prompt).wait(timeout=WAIT)
    assert job.status == "completed"
    return job


def test_stored_events_and_the_end(client: Journeyman) -> None:
    job = completed(client, "[[say one]]")
    completed_once = [event.seq for event in job.events()]
    job.send("[[say two]]").wait(timeout=WAIT)
    expected = [event.seq for event in job.events()]
    # The stream must not end at the first of the two ends of the job.
    assert len(expected) > len(completed_once)
    assert [event.seq for event in job.stream_events()] == expected
    assert [event.seq for event in job.stream_events(after=expected[-3])] == expected[-2:]
    assert list(job.stream_events(after=expected[-1])) == []


def test_a_stream_that_is_cut_all_the_time(
    client: Journeyman, unreliable: Journeyman, proxy: Proxy
) -> None:
    job = completed(client, SAY)
    expected = list(job.events())
    proxy.cut_after = 1500
    with unreliable.jobs.stream_events("shop", job.id, follow=True) as stream:
        found = [next(stream) for _ in expected]
    assert found == expected
    assert stream.last_event_id == str(expected[-1].seq)
    assert proxy.connections > 2


def test_new_events_after_a_cut(server: Server, unreliable: Journeyman, proxy: Proxy) -> None:
    job = unreliable.jobs.create("shop", prompt="[[say first]] [[hold]] [[say second]]")
    seen = []
    for event in job.stream_events():
        seen.append(event.seq)
        if isinstance(event, models.EventRunStarted):
            proxy.cut()
            server.release(job.id)
    assert seen == [event.seq for event in job.events()]
    assert job.refresh().status != "active"


def test_follow_continues_after_the_end(client: Journeyman) -> None:
    job = completed(client, "[[say one]]")
    ends = 0
    with job.stream_events(follow=True) as stream:
        for event in stream:
            if isinstance(event, models.EventJobCompleted):
                ends += 1
                if ends == 2:
                    break
                job.send("[[say two]]")
    assert list(stream) == []


def test_feed(client: Journeyman, unreliable: Journeyman, proxy: Proxy, quiet_project: str) -> None:
    types = ["job.created", "job.completed"]
    [page] = client.events.list(quiet_project).pages()
    assert (page.items, page.has_more) == ([], False)
    assert page.next_cursor is not None

    with unreliable.events.stream(quiet_project, types=types) as stream:
        # A cut before the first event must not lose it: the stream knows where it began.
        assert stream._begin() == page.next_cursor
        proxy.cut()
        job = completed(client, "[[say one]]", quiet_project)
        first = next(stream)
        assert (first.type, first.data.job.id) == ("job.created", job.id)
        proxy.cut()
        job.send("[[say two]]").wait(timeout=WAIT)
        rest = [next(stream), next(stream)]
    assert [event.type for event in rest] == ["job.completed", "job.completed"]
    assert all(event.data.project_id == quiet_project for event in rest)

    events = [first, *rest]
    cursor = page.next_cursor
    assert (
        list(client.events.list(quiet_project, types=types, cursor=cursor, page_size=2)) == events
    )
    resumed = client.events.stream(quiet_project, types=types, cursor=first.id)
    with resumed:
        assert [next(resumed), next(resumed)] == rest


def test_feed_of_all_projects(client: Journeyman) -> None:
    with client.events.stream(cursor=client.events.newest_cursor()) as stream:
        job = client.jobs.create("shop", prompt="[[say one]]")
        event = next(event for event in stream if event.data.job.id == job.id)
        assert event.type == "job.created"
        assert event.timestamp.tzinfo is not None
    job.wait(timeout=WAIT)


def test_a_feed_that_is_cut_before_its_first_event(
    client: Journeyman, unreliable: Journeyman, proxy: Proxy, quiet_project: str
) -> None:
    stream = unreliable.events.stream(quiet_project, types=["job.completed"])
    found: list[models.ProjectEvent] = []
    reader = threading.Thread(target=lambda: found.append(next(stream)), daemon=True)
    reader.start()
    while stream.last_event_id is None:
        time.sleep(0.01)
    connections = proxy.connections
    for cut in range(1, 3):
        proxy.cut()
        while proxy.connections < connections + cut:
            time.sleep(0.01)
    proxy.refuses = True
    proxy.cut()
    job = completed(client, "[[say one]]", quiet_project)
    proxy.refuses = False
    reader.join(WAIT)
    assert [(event.type, event.data.job.id) for event in found] == [("job.completed", job.id)]
    stream.close()


def test_refusals(client: Journeyman) -> None:
    with pytest.raises(JobNotFoundError):
        next(client.jobs.stream_events("shop", "job_x", follow=True))
    with pytest.raises(BadRequestError) as refusal:
        next(client.events.stream(cursor="x"))
    assert refusal.value.code == "invalid_last_event_id"
    with pytest.raises(CursorExpiredError):
        next(client.events.stream(cursor="999999999"))
    with pytest.raises(BadRequestError):
        next(client.events.stream(types=["x"]))


def test_a_server_that_does_not_come_back(
    client: Journeyman, unreliable: Journeyman, proxy: Proxy, clock: Clock
) -> None:
    job = completed(client, "[[say one]]")
    stream = unreliable.jobs.stream_events("shop", job.id, follow=True, reconnect_timeout=5)
    for _ in job.events():
        next(stream)
    begin = clock.now
    proxy.__exit__()
    with pytest.raises(ConnectionFailedError):
        next(stream)
    # The last delay begins before the timeout is over.
    assert 5 < clock.now - begin < 20
    with (
        Journeyman(proxy.url, "jmn_x", max_retries=1) as other,
        pytest.raises(ConnectionFailedError),
    ):
        next(other.jobs.stream_events("shop", job.id, follow=True))
