export default {
  journeyman: {
    input: "openapi.json",
    output: {
      target: "generated/orval.ts",
      client: "fetch",
      mode: "single",
      baseUrl: { runtime: "process.env.JOURNEYMAN_URL" },
    },
  },
};
