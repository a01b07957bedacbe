// Reads a GraphQL query from standard input, and prints why GitHub's schema does not allow it.
import { readFileSync } from "node:fs";
import { validate } from "@octokit/graphql-schema";

for (const error of validate(readFileSync(0, "utf8"))) {
  console.log(error.message);
}
