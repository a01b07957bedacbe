// A job as Restate's virtual object: a handler that gets a message, calls a scripted model over HTTP on loopback, which
// answers at once, and stores both in the job's state. A second port serves the model, and the times of the first lines
// of the handler. Arguments: the port of the service, the port of the model.
import http from "node:http";
import * as restate from "@restatedev/restate-sdk";

const [servicePort, modelPort] = process.argv.slice(2).map(Number);
const times = {};
const held = new Promise(() => {});

const job = restate.object({
    name: "job",
    handlers: {
        message: async (ctx, body) => {
            if (body.stamp) times[body.stamp] ??= (performance.timeOrigin + performance.now()) / 1000;
            // Act as an agent that never answers, so that accepted messages stay queued.
            if (body.hold) await held;
            const answer = await ctx.run("model", async () => {
                const response = await fetch(`http://127.0.0.1:${modelPort}/model`, { method: "POST", body: body.prompt });
                return await response.text();
            });
            const history = (await ctx.get("history")) ?? [];
            ctx.set("history", [...history.slice(-10), body.prompt, answer]);
            return { status: "completed" };
        },
    },
});

http.createServer((request, response) => {
    request.resume().on("end", () => response.end(request.url === "/times" ? JSON.stringify(times) : "done"));
}).listen(modelPort, "127.0.0.1");

restate.serve({ services: [job], port: servicePort });
