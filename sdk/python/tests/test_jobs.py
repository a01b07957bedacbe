from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from journeyman_client import (
    BranchTakenError,
    Job,
    JobArchivedError,
    JobBusyError,
    JobNotFoundError,
    Journeyman,
    MessageAlreadyDeliveredError,
    NotFoundError,
    PreconditionFailedError,
    WaitTimeoutError,
    models,
)

from .conftest import LONG, WAIT, Server


def test_create_wait_and_follow_up(client: Journeyman) -> None:
    job = client.jobs.create("shop", prompt="Greet [[write hello.txt|Hello]] [[say Done.]]")
    assert job.project == "shop"
    assert job.pr_link is None
    created = job
    job = job.wait(timeout=WAIT)
    assert job is created
    assert job.status == "completed"
    assert job.pr_link is not None
    assert "+Hello" in job.diff()
    answer = job.answer()
    assert answer is not None
    assert "Done." in answer

    first_link = job.pr_link
    sent = job.send("Louder [[write hello.txt|HELLO]]")
    assert sent.job is job
    assert sent.job.record.status == "active"
    job.wait(timeout=WAIT)
    assert (job.status, job.pr_link) == ("completed", first_link)
    assert "+HELLO" in job.diff()

    messages = list(job.messages())
    assert sent.get() == sent.wait() == job.message(sent.id)
    assert messages[1].model_dump() == sent.get().model_dump()
    assert [message.status for message in messages] == ["finished", "finished"]
    assert [len(message.commits) for message in messages] == [1, 1]
    assert [run.message_id for run in job.runs()] == [message.id for message in messages]
    assert [pull.state for pull in job.pulls()] == ["open"]
    assert job.checks().checks == []
    details = job.details()
    assert (details.project, details.queue_length) == ("shop", 0)
    assert details.created_at == job.created_at
    assert details.created_at.tzinfo is not None


def test_get_and_handle(client: Journeyman) -> None:
    job = client.jobs.create("shop", prompt="[[say hi]]")
    same = client.jobs.get("shop", job.id, wait=30)
    while same.status == "active":
        same = client.jobs.get("shop", job.id, wait=30)
    assert isinstance(same, Job)
    assert same.status == "completed"
    assert job.refresh().status == "completed"
    assert repr(job) == f"<Job shop/{job.id} completed>"
    assert (job.model, job.source.ref, job.archived_at) == ("test/scripted", "main", None)


def test_wait_ends_after_the_timeout(client: Journeyman) -> None:
    job = client.jobs.create("shop", prompt=LONG)
    with pytest.raises(WaitTimeoutError, match=r"still active after 0\.3 s"):
        job.wait(timeout=0.3)
    with pytest.raises(TimeoutError):
        job.wait(timeout=0)
    assert job.refresh().status == "active"
    assert job.cancel().wait(timeout=WAIT).status == "failed"
    failure = job.details().failure
    assert failure is not None
    assert failure.code == "cancelled"


def test_queue(client: Journeyman) -> None:
    job = client.jobs.create("shop", prompt=LONG)
    with pytest.raises(JobBusyError) as refusal:
        job.send("Now", delivery="reject")
    assert (refusal.value.status, refusal.value.code) == (409, "job_busy")
    with pytest.raises(JobBusyError):
        job.delete()
    second = job.send("Later")
    first, listed = job.messages()
    assert (listed.id, listed.status) == (second.id, "queued")
    with pytest.raises(WaitTimeoutError, match=second.id):
        second.wait(timeout=0)
    job.withdraw(second.id)
    assert second.wait(timeout=WAIT).status == "withdrawn"
    assert [message.status for message in job.messages()][1] == "withdrawn"
    # An agent takes the first message as soon as a worker is free.
    stream = job.stream_events()
    with stream:
        next(event for event in stream if isinstance(event, models.EventRunStarted))
    with pytest.raises(MessageAlreadyDeliveredError):
        job.withdraw(first.id)
    instead = job.ask("Instead [[write urgent.txt|!]]", delivery="interrupt", timeout=WAIT)
    assert (instead.status, len(instead.commits)) == ("finished", 1)
    assert job.status == "completed"


def test_answers_belong_to_their_messages(client: Journeyman) -> None:
    job = client.jobs.create("shop", prompt="[[say first]]")
    sent = [job.send(f"[[say number {n}]]") for n in range(3)]
    asked = job.ask("[[say last]]", timeout=WAIT)
    answers = [message.wait(timeout=WAIT).answer or "" for message in sent]
    for number, answer in enumerate(answers):
        assert f"number {number}" in answer
    assert "last" in (asked.answer or "")
    assert job.answer() == asked.answer
    assert job.status == "completed"
    with pytest.raises(NotFoundError) as missing:
        job.message("msg_x")
    assert missing.value.code == "message_not_found"


def test_a_message_ends_before_those_behind_it(client: Journeyman, server: Server) -> None:
    job = client.jobs.create("shop", prompt="[[hold]]")
    asked = job.send("[[say quick]]")
    job.send(LONG)
    server.release(job.id)
    assert "quick" in (asked.wait(timeout=WAIT).answer or "")
    assert job.status == "active"
    assert asked.wait().status == "finished"
    assert job.refresh().status == "active"
    job.archive()


def test_a_canceled_message_ends(client: Journeyman) -> None:
    job = client.jobs.create("shop", prompt=LONG)
    running, queued = job.send("x", delivery="interrupt"), job.send(LONG)
    job.cancel()
    assert running.wait(timeout=WAIT).status in {"finished", "cancelled", "withdrawn"}
    assert queued.wait(timeout=WAIT).status in {"cancelled", "withdrawn"}
    assert job.status == "failed"


def test_archive(client: Journeyman) -> None:
    job = client.jobs.create("shop", prompt="[[say hi]]").wait(timeout=WAIT)
    old = job.refresh().record
    assert job.archive().status == "archived"
    assert job.archived_at is not None
    with pytest.raises(JobArchivedError):
        job.send("More")
    assert job.unarchive().status == "completed"
    assert job.retry().status == "completed"
    job.archive()
    assert old.etag is not None
    with pytest.raises(PreconditionFailedError):
        job.delete(if_match=old)
    job.refresh().delete(if_match=job.record)
    with pytest.raises(JobNotFoundError):
        job.refresh()


def test_branch(client: Journeyman) -> None:
    job = client.jobs.create("shop", prompt=LONG, branch="mine", draft=True, title="Mine")
    with pytest.raises(BranchTakenError):
        client.jobs.create("shop", prompt=LONG, branch="mine")
    assert [one.id for one in client.jobs.list("shop", branch="mine")] == [job.id]
    assert job.details().title == "Mine"
    job.archive()


def test_lists_and_filters(client: Journeyman) -> None:
    start = datetime.now(timezone.utc) - timedelta(seconds=1)
    metadata = {"ticket": "SHOP-1", "team": "a b"}
    made = [
        client.jobs.create("shop", prompt="[[say hi]]", labels=["list", f"n{n}"], metadata=metadata)
        for n in range(5)
    ]
    newest_first = [job.id for job in reversed(made)]
    for project in ("shop", None):
        pager = client.jobs.list(project, label="list", page_size=2)
        assert [job.id for job in pager] == newest_first
        assert [job.id for job in pager] == newest_first
        assert [len(page.items) for page in pager.pages()] == [2, 2, 1]
    records = client.jobs.list_records("shop", label="list", page_size=3)
    assert [record.id for record in records] == newest_first
    first = next(iter(client.jobs.list("shop", label="list", page_size=2).pages()))
    rest = client.jobs.list("shop", label="list", cursor=first.next_cursor)
    assert [job.id for job in rest] == newest_first[2:]

    def ids(pager: object) -> list[str]:
        return [job.id for job in pager]  # type: ignore[attr-defined]

    assert ids(client.jobs.list("shop", label=["list", "n3"])) == [made[3].id]
    assert ids(client.jobs.list(metadata=metadata, created_after=start)) == newest_first
    assert ids(client.jobs.list(metadata={"ticket": "SHOP-2"})) == []
    assert ids(client.jobs.list(label="list", created_before=start)) == []
    assert ids(client.jobs.list(label="list", agent="claude-code", author="tests")) == []
    assert client.jobs.list(label="list").first() is not None
    assert client.jobs.list(label="none").first() is None
    done = client.jobs.wait("shop", made[0].id, timeout=WAIT)
    assert done.id in ids(client.jobs.list("shop", status="completed", label="list"))


def test_events(client: Journeyman) -> None:
    job = client.jobs.create("shop", prompt="[[say one]] [[say two]]").wait(timeout=WAIT)
    events = list(job.events())
    assert [event.seq for event in events] == sorted(event.seq for event in events)
    assert [event.seq for event in client.jobs.events("shop", job.id, page_size=2)] == [
        event.seq for event in events
    ]
    assert isinstance(events[0], models.EventJobCreated)
    assert any(isinstance(event, models.EventJobCompleted) for event in events)
    texts = "".join(e.data.text or "" for e in events if isinstance(e, models.EventAgentMessage))
    assert "one" in texts
    assert "two" in texts
    last = events[-1].seq
    assert [event.seq for event in job.events(after=last - 1)] == [last]
