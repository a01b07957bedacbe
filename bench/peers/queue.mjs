// Code that the queues' scripts share. A queue has the form
//   { add(queue, body), work(queue, handler), close() }
// where `add` resolves when the message is stored, and `work` starts to process messages, eight at a time.
// Prints a line of JSON. Argument: the seconds of each load, or `start` for the time until the first message is stored.
const PROMPT = "Add a test for the parser. ".repeat(18);
const now = () => performance.timeOrigin + performance.now();
const median = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)];

// Runs `clients` loops of `once`; returns the rate per second and the median duration in milliseconds.
async function closed(clients, seconds, once) {
    const times = [], begun = now(), end = begun + seconds * 1000;
    const loop = async () => {
        while (now() < end) {
            const from = now();
            await once();
            times.push(now() - from);
        }
    };
    await Promise.all(Array.from({ length: clients }, loop));
    return { rate: (times.length * 1000) / (now() - begun), p50: median(times) };
}

export async function measure(queue) {
    const job = (number) => ({ job: `job-${number % 2000}`, prompt: PROMPT });
    await queue.add("held", job(0));
    const figures = { start_ms: performance.now(), node_memory_mb: process.memoryUsage.rss() / 2 ** 20 };
    if (process.argv[2] !== "start") {
        const seconds = Number(process.argv[2]);
        let number = 0;
        const accept = () => queue.add("held", job(number++));
        await closed(64, 0.5, accept); // let Node.js compile the code
        const one = await closed(1, seconds, accept);
        const many = await closed(64, seconds, accept);
        Object.assign(figures, {
            accepts_per_second_1: one.rate, accept_p50_ms: one.p50, accepts_per_second_64: many.rate,
        });

        // A turn is an empty handler in this process, as if the model answered at once.
        const begun = new Map(), ended = new Map();
        await queue.work("turns", async (body) => {
            begun.get(body.stamp)?.(now());
            ended.get(body.stamp)?.();
        });
        const delays = [];
        for (let i = 0; i < 50; i++) {
            const stamp = `dispatch-${i}`;
            const first = new Promise((resolve) => begun.set(stamp, resolve));
            await queue.add("turns", { ...job(i), stamp });
            const answered = now();
            delays.push((await first) - answered);
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
        figures.dispatch_p50_ms = median(delays);
        let turn = 0;
        const load = await closed(8, seconds, async () => {
            const stamp = `turn-${turn++}`;
            const end = new Promise((resolve) => ended.set(stamp, resolve));
            await queue.add("turns", { ...job(turn), stamp });
            await end;
            ended.delete(stamp);
        });
        figures.turns_per_second = load.rate;
    }
    console.log(JSON.stringify(figures));
    await queue.close();
    process.exit(0);
}
