"""Calls the operations on jobs, messages, events and webhooks.

The reference at ``/docs`` of a server shows each region as the example of the operation that it is
named after. Set JOURNEYMAN_URL and JOURNEYMAN_KEY. The server needs a project ``shop`` with
the test model and a commit.
"""

import time
from datetime import datetime, timedelta, timezone

from journeyman_client import Journeyman


def manage_webhooks(client: Journeyman) -> str:
    """Creates, changes and tests a webhook; returns its ID."""
    # region createWebhook
    webhook = client.webhooks.create(
        "shop",
        url="https://hooks.example.com/journeyman",
        events=["job.created", "job.completed", "job.failed"],
    )
    secret = webhook.secret  # verifies the requests; no other response contains it
    # endregion

    # region listWebhooks
    for listed in client.webhooks.list("shop"):
        print(listed.id, listed.url, listed.enabled)
    # endregion

    webhook_id, old_secret = webhook.id, secret
    # region getWebhook
    found = client.webhooks.get("shop", webhook_id)
    print(found.events)
    # endregion

    # region changeWebhook
    changed = client.webhooks.update("shop", webhook_id, if_match=found, description="The CI")
    print(changed.description)
    # endregion

    # region rotateWebhook
    rotated = client.webhooks.rotate("shop", webhook_id, keep_old_seconds=3600)
    secret = rotated.secret  # requests are signed with both secrets for an hour
    # endregion

    # region testWebhook
    attempt = client.webhooks.test("shop", webhook_id)
    print(attempt.status, attempt.error)
    # endregion
    assert secret != old_secret  # noqa: S101
    return webhook_id


def work_with_jobs(client: Journeyman) -> str:
    """Creates jobs and sends messages; returns the ID of a job."""
    # region createJob
    job = client.jobs.create(
        "shop",
        prompt="Add a search field to the list of orders. [[write search.txt|Search]]",
        labels=["ui"],
        metadata={"ticket": "SHOP-12"},
    )
    job.wait(timeout=600)  # until it is completed, failed or archived
    print(job.status, job.pr_link, job.answer())
    # endregion

    job_id = job.id
    # region getJob
    job = client.jobs.get("shop", job_id, wait=30)  # returns earlier if the job is not active
    print(job.status)
    # endregion

    # region getJobDetails
    details = client.jobs.details("shop", job_id)
    print(details.author, details.labels, details.usage.cost_micros)
    # endregion

    # region sendMessage
    message = job.ask("Also search by customer name.", timeout=600)
    print(message.status, message.answer)
    # endregion

    message_id = message.id
    # region getMessage
    message = client.messages.get("shop", job_id, message_id)
    print(message.status, message.commits)
    # endregion

    # region listMessages
    for message in client.messages.list("shop", job_id):
        print(message.status, message.prompt)
    # endregion

    # region listRuns
    for run in client.runs.list("shop", job_id):
        print(run.id, run.status, run.usage.cost_micros)
    # endregion

    # region getDiff
    print(client.jobs.diff("shop", job_id))
    # endregion

    # region listJobPulls
    for pull in client.jobs.pulls("shop", job_id):
        print(pull.title, pull.state, pull.url)
    # endregion

    # region getJobChecks
    checks = client.jobs.checks("shop", job_id)
    print(checks.result, [check.name for check in checks.checks])
    # endregion

    # region listPulls
    for opened in client.pulls.list("shop", state="open"):
        print(opened.number, opened.title, opened.job)
    # endregion

    number = next(one.number for one in client.pulls.list("shop") if one.job == job_id)
    # region getPull
    shown = client.pulls.get("shop", number)
    print(shown.mergeable, shown.body)
    # endregion

    branch, title, why = shown.head, shown.title or "", shown.body or ""
    # region openPull
    mine = client.pulls.open("shop", head=branch, title=title, body=why)
    print(mine.number, mine.url)
    # endregion

    # region mergePull
    merged = client.pulls.merge("shop", number, method="squash")
    print(merged.state, merged.ended_at)
    # endregion

    # region listJobs
    for record in client.jobs.list_records("shop", status="completed"):
        print(record.id, record.pr_link)
    # endregion

    # region listProjectJobs
    for details in client.jobs.list("shop", label="ui", metadata={"ticket": "SHOP-12"}):
        print(details.id, details.branch)
    # endregion

    # region listAllJobs
    for details in client.jobs.list(status="failed"):
        print(details.id, details.failure)
    # endregion
    return job_id


def read_events(client: Journeyman, job_id: str, cursor: str) -> None:
    """Reads the events of a job, and those of all jobs after a cursor."""
    # region listEvents
    for event in client.jobs.events("shop", job_id):
        print(event.seq, event.type)
    # endregion

    # region streamEvents
    for event in client.jobs.stream_events("shop", job_id):  # until the job is not active
        print(event.seq, event.type)
    # endregion

    # region listProjectEvents
    for change in client.events.list("shop", types=["job.completed", "job.failed"]):
        print(change.id, change.type, change.data.job.id)
    # endregion

    # region listAllEvents
    for page in client.events.list(cursor=cursor).pages():
        print(len(page.items))
        cursor = page.next_cursor or cursor  # store it, to continue after a restart
    # endregion

    cursor = "0"
    # region streamProjectEvents
    with client.events.stream("shop", cursor=cursor) as stream:
        for change in stream:
            print(change.type, change.data.job.id)
            if change.type == "job.completed":
                break
    # endregion

    # region streamAllEvents
    with client.events.stream(types=["job.completed"], cursor=cursor) as stream:
        for change in stream:
            print(change.data.project_id, change.data.job.pr_link)
            break  # without it, the loop waits for the next event
    # endregion


def end_jobs(client: Journeyman) -> None:
    """Withdraws a message, and cancels, archives and deletes a job."""
    job = client.jobs.create("shop", prompt="[[sleep 3600]]")
    job_id = job.id
    message_id = job.send("And the tests, please.").id
    # region withdrawMessage
    job = client.messages.withdraw("shop", job_id, message_id)
    print(job.status)
    # endregion

    # region retryJob
    job = client.jobs.retry("shop", job_id)  # if it waits: starts the next attempt now
    print(job.status)
    # endregion

    # region cancelJob
    job = client.jobs.cancel("shop", job_id)
    print(job.status)
    # endregion

    # region archiveJob
    job = client.jobs.archive("shop", job_id)
    print(job.archived_at)
    # endregion

    # region unarchiveJob
    job = client.jobs.unarchive("shop", job_id)
    print(job.status)
    # endregion

    # region deleteJob
    client.jobs.delete("shop", job_id)
    # endregion


def read_deliveries(client: Journeyman, webhook_id: str) -> None:
    """Repeats deliveries of a webhook, and deletes it."""
    while not list(client.webhooks.deliveries("shop", webhook_id)):
        time.sleep(0.1)  # the service prepares deliveries shortly after the events
    # region listDeliveries
    for delivery in client.webhooks.deliveries("shop", webhook_id):
        print(delivery.id, delivery.state, delivery.attempts)
    # endregion

    delivery_id = next(iter(client.webhooks.deliveries("shop", webhook_id))).id
    # region redeliver
    client.webhooks.redeliver("shop", webhook_id, delivery_id)
    # endregion

    # region replayWebhook
    since = datetime.now(timezone.utc) - timedelta(hours=1)
    print(client.webhooks.replay("shop", webhook_id, since=since))
    # endregion

    # region deleteWebhook
    client.webhooks.delete("shop", webhook_id)
    # endregion


def main() -> None:
    """Calls the operations in an order in which each has what it needs."""
    with Journeyman() as client:
        webhook_id, cursor = manage_webhooks(client), client.events.newest_cursor()
        job_id = work_with_jobs(client)
        read_events(client, job_id, cursor)
        end_jobs(client)
        read_deliveries(client, webhook_id)


if __name__ == "__main__":
    main()
