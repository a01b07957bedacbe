// pg-boss's queue, with the listener that wakes workers at once. The database's URL is in the variable DATABASE_URL.
import { PgBoss } from "pg-boss";
import { measure } from "./queue.mjs";

const boss = new PgBoss({ connectionString: process.env.DATABASE_URL, useListenNotify: true, max: 20 });
boss.on("error", (error) => console.error(error.message));
await boss.start();
for (const name of ["held", "turns"]) await boss.createQueue(name, { notify: true });
await measure({
    add: (queue, body) => boss.send(queue, body),
    work: (queue, handler) =>
        boss.work(queue, { localConcurrency: 8, pollingIntervalSeconds: 0.5 }, async ([job]) => handler(job.data)),
    async close() {},
});
