// graphile-worker's queue. The database's URL is in the variable DATABASE_URL.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { measure } from "./queue.mjs";

const logger = new Logger(() => () => {});
const pgPool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 20 });
const utils = await makeWorkerUtils({ pgPool, logger });
await utils.migrate();
await measure({
    // Jobs have no queue names: the documentation of graphile-worker warns against many of them.
    add: (queue, body) => utils.addJob(queue, body),
    work: (queue, handler) => run({ pgPool, logger, concurrency: 8, noHandleSignals: true, taskList: { [queue]: handler } }),
    async close() {},
});
