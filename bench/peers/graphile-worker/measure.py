"""graphile-worker on PostgreSQL: a Node.js process that adds messages to the queue and processes them."""

from rig.peer import main, postgres_queue


def measure(asked, work):
    return postgres_queue(asked, "queue-graphile-worker.mjs")


main(measure, __doc__)
