"""pg-boss on PostgreSQL: a Node.js process that adds messages to the queue and processes them."""

from rig.peer import main, postgres_queue


def measure(asked, work):
    return postgres_queue(asked, "queue-pg-boss.mjs")


main(measure, __doc__)
