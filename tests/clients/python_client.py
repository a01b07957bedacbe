"""The steps of the client of openapi-python-client. The arguments: the address, a key, and the name of a project."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from journeyman_client import AuthenticatedClient
from journeyman_client.api.jobs import create_job, get_job, list_events, list_project_jobs
from journeyman_client.api.messages import list_messages, send_message
from journeyman_client.api.projects import create_project
from journeyman_client.api.system import get_usage
from journeyman_client.models import (
    CreateJob,
    CreateProject,
    ErrorBody,
    EventPage,
    GetUsageGroupByItem,
    Job,
    JobDetailsPage,
    ListProjectJobsStatus,
    MessageList,
    Project,
    SendMessage,
    Status,
    UsageReport,
)

T = TypeVar("T")
PUSH = Path(__file__).resolve().parent / "push.py"
MISSING = "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7"

# The time limit of a wait, in seconds. Only a hang reaches it.
WAIT = 600


def of(kind: type[T], answer: object) -> T:
    assert isinstance(answer, kind), answer
    return answer


def settled(client: AuthenticatedClient, project: str, job: str) -> Job:
    end = time.monotonic() + WAIT
    while True:
        record = of(Job, get_job.sync(project, job, client=client, wait=10))
        if record.status != Status.ACTIVE:
            return record
        assert time.monotonic() < end, f"the job {job} stays active"


def main(url: str, key: str, name: str) -> None:
    # Without this header, the server answers with the stream of events, which does not end, instead of a page.
    headers = {"Accept": "application/json"}
    client = AuthenticatedClient(base_url=url, token=key, headers=headers, raise_on_unexpected_status=True)
    project = create_project.sync(client=client, body=CreateProject(id=name, repository=f"local:{name}"))
    assert of(Project, project).repository == f"local:{name}"
    subprocess.run([sys.executable, PUSH, url, key, name], check=True)

    new = CreateJob(prompt="[[write a.txt|one]] [[say first]]", labels=["b", "a"])
    create: Callable[[CreateJob, str], Job] = lambda body, once: of(
        Job, create_job.sync(name, client=client, body=body, idempotency_key=once)
    )
    job = create(new, "python-1")
    assert job.status == Status.ACTIVE and job.pr_link is None and job.archived_at is None, job
    assert create(new, "python-1").id == job.id
    assert settled(client, name, job.id).status == Status.COMPLETED
    settled(client, name, create(CreateJob(prompt="[[say other]]", labels=["a"]), "python-2").id)
    of(Job, send_message.sync(name, job.id, client=client, body=SendMessage(prompt="[[append a.txt|two]]")))
    done = settled(client, name, job.id)
    assert done.status == Status.COMPLETED and done.pr_link, done
    assert done.created_at.tzinfo is not None, done

    messages = of(MessageList, list_messages.sync(name, job.id, client=client)).messages
    assert [message.status.value for message in messages] == ["finished", "finished"], messages
    read(client, name, job.id)
    for labels, count in ((["a", "b"], 1), (["a"], 2)):
        status = ListProjectJobsStatus.COMPLETED
        page = list_project_jobs.sync(name, client=client, status=status, label=labels)
        assert len(of(JobDetailsPage, page).jobs) == count, page
    groups = [GetUsageGroupByItem.PROJECT]
    [line] = of(UsageReport, get_usage.sync(client=client, project=[name], group_by=groups)).lines
    assert line.runs == 3 and line.project == name, line

    missing = get_job.sync_detailed(name, MISSING, client=client)
    assert missing.status_code == 404 and of(ErrorBody, missing.parsed).code.value == "job_not_found", missing
    empty = send_message.sync_detailed(name, job.id, client=client, body=SendMessage(prompt=""))
    assert empty.status_code == 400 and "prompt" in of(ErrorBody, empty.parsed).error, empty
    print("clients: openapi-python-client passed")


def read(client: AuthenticatedClient, project: str, job: str) -> None:
    """Reads the events of a job in pages."""
    kinds: list[str] = []
    while True:
        page = of(EventPage, list_events.sync(project, job, client=client, after=len(kinds), limit=7))
        assert [event.seq for event in page.events] == list(range(len(kinds) + 1, page.next_after + 1)), page
        kinds += [event.type_ for event in page.events]
        if not page.has_more:
            break
    assert kinds[0] == "job.created" and kinds.count("message.accepted") == 2, kinds


main(*sys.argv[1:4])
