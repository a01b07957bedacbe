// BullMQ's queue. The port of Redis is in the variable REDIS_PORT.
import { Queue, Worker } from "bullmq";
import { measure } from "./queue.mjs";

const connection = { host: "127.0.0.1", port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
const open = {};
await measure({
    add(queue, body) {
        open[queue] ??= new Queue(queue, { connection, defaultJobOptions: { removeOnComplete: 1000 } });
        return open[queue].add("message", body);
    },
    async work(queue, handler) {
        const worker = new Worker(queue, (job) => handler(job.data), { connection, concurrency: 8 });
        await worker.waitUntilReady();
    },
    async close() {},
});
