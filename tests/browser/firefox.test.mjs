// Runs the tests of a new user (newcomer.test.mjs) in Firefox, as Debian packages it.

import fs from "node:fs";
import { test } from "node:test";

process.env.BROWSER = "firefox";
process.env.FIREFOX ||= "/usr/bin/firefox-esr";

if (fs.existsSync(process.env.FIREFOX)) await import("./newcomer.test.mjs");
else test("a new user in Firefox", { skip: `Firefox is missing: ${process.env.FIREFOX} (Debian: apt-get install firefox-esr)` }, () => {});
