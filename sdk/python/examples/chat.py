"""Sends prompts to a job one after the other, and prints what the agent says and does.

Set JOURNEYMAN_URL and JOURNEYMAN_KEY. Then, for a project with the ID ``shop``::

    python chat.py shop "Add a search field" "Also search in the titles"
"""

import sys

from journeyman_client import Job, Journeyman, models


def show(job: Job, after: int) -> int:
    """Prints the events of a job until it is not active; returns the number of the last one."""
    with job.stream_events(after=after) as stream:
        for event in stream:
            after = event.seq
            if isinstance(event, models.EventAgentMessage):
                print(event.data.text)
            elif isinstance(event, models.EventAgentToolCall) and event.data.title:
                print("-", event.data.title)
            elif isinstance(event, models.EventJobFailed):
                print("failed:", event.data.reason.text)
    return after


def main() -> None:
    """Creates a job for the first prompt, and sends the others as follow-up messages."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    project, first, *others = sys.argv[1:]
    with Journeyman() as client:
        job = client.jobs.create(project, prompt=first)
        last = show(job, 0)
        for prompt in others:
            print(">", prompt)
            job.send(prompt)
            last = show(job, last)
        job.refresh()
        print(job.status, job.pr_link or "without a pull request")


if __name__ == "__main__":
    main()
