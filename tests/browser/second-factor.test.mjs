// Tests of the second factor and of the fresh proof, in a browser: what people see, click and keep.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { execFileSync } from "node:child_process";
import path from "node:path";
import { PASSWORD, Suite, assertNone, axe, overflow, screenshot } from "./lib.mjs";

const suite = await Suite.start();
const test = suite.test.bind(suite);
const { service } = suite;
const admin = await service.createAdministrator("ada");
await service.project(service.key(), "shop");

/** Removes the proofs of a user's sessions, as if they were older than 15 minutes. */
function forgetProofs(name) {
  const program = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], timeout=60); db.execute('UPDATE sessions SET proven_at = NULL WHERE owner = (SELECT id FROM users WHERE name = ?)', sys.argv[2:]); db.commit()";
  execFileSync("python3", ["-c", program, path.join(service.data, "journeyman.db"), name]);
}

/** Returns the code of an app with a key at a step from now. */
function codeOf(key, step = 0) {
  const bits = [...key].map((letter) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(letter).toString(2).padStart(5, "0")).join("");
  const secret = Buffer.from(bits.match(/.{8}/g).map((byte) => Number.parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + step));
  const hash = createHmac("sha1", secret).update(counter).digest();
  const number = hash.readUInt32BE(hash[19] & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

/** Checks the accessibility and the width of a page in both themes, and makes screenshots. */
async function check(page, name) {
  const found = [];
  for (const [width, height] of [[1280, 900], [390, 844]]) {
    await page.setViewportSize({ width, height });
    const excess = await overflow(page);
    if (excess) found.push(excess);
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      found.push(...(await axe(page)).map((one) => `${width} px, ${theme}: ${one}`));
      await screenshot(page, `${name}-${width}-${theme}`);
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 900 });
  assertNone(found, `problems of ${name}`);
}

test("a form that needs a proof asks for the password, and makes the key that was entered", async () => {
  const page = await suite.page({ cookie: admin });
  await suite.open(page, "/keys/new");
  forgetProofs("ada");
  await page.getByLabel("Name", { exact: true }).fill("what I typed");
  suite.expect(/^403 POST \/keys/);
  await page.getByRole("button", { name: "Create key" }).click();
  await page.getByRole("heading", { name: "Confirm that it is you" }).waitFor();
  await check(page, "confirm");
  await page.getByLabel("Password").fill("wrong wrong wrong");
  suite.expect(/^403 POST \/keys/);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("The current password is wrong.").waitFor();
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("jmn_").first().waitFor();
  assert.match(page.url(), /\/secrets\//);
  await suite.open(page, "/keys");
  await page.getByText("what I typed").first().waitFor();
  await page.context().close();
});

test("a page that needs a proof opens after the password", async () => {
  const page = await suite.page({ cookie: admin });
  await suite.open(page, "/account");
  forgetProofs("ada");
  await page.getByRole("link", { name: "Set up a second factor" }).click();
  await page.getByRole("heading", { name: "Confirm that it is you" }).waitFor();
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("heading", { name: "Set up a second factor" }).waitFor();
  await page.context().close();
});

test("a second factor is set up, asked for at the sign-in, and removed by an administrator", async () => {
  const cookie = await service.createUser("grace", "member");
  const page = await suite.page({ cookie });
  await suite.open(page, "/account");
  await page.getByRole("link", { name: "Set up a second factor" }).click();
  await page.getByRole("img", { name: "QR code with the key" }).waitFor();
  await check(page, "second-factor-set-up");
  const key = (await page.locator("#key").textContent()).replaceAll(" ", "");
  await page.getByLabel("Code", { exact: true }).fill(codeOf(key, 100));
  suite.expect(/^422 POST \/account\/second-factor/);
  await page.getByRole("button", { name: "Set up" }).click();
  await page.getByText("The code is wrong.").waitFor();
  assert.equal((await page.locator("#key").textContent()).replaceAll(" ", ""), key, "the key has changed");
  await page.getByLabel("Code", { exact: true }).fill(codeOf(key));
  await page.getByRole("button", { name: "Set up" }).click();
  await page.getByRole("heading", { name: "Store these recovery codes now" }).waitFor();
  const recovery = await page.locator("[id^=code-]").allTextContents();
  assert.equal(recovery.length, 10);
  await check(page, "second-factor-codes");
  await page.getByRole("button", { name: "I have stored it" }).click();
  await page.getByText("You have 10 recovery codes left.").waitFor();
  await check(page, "second-factor-account");
  await page.context().close();

  const other = await suite.page();
  await suite.open(other, "/login?next=/keyboard");
  await other.getByLabel("Name").fill("grace");
  await other.getByLabel("Password").fill(PASSWORD);
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.getByRole("heading", { name: "Enter a code" }).waitFor();
  await check(other, "sign-in-code");
  assert.deepEqual((await other.context().cookies()).map(({ name }) => name), ["journeyman-code"], "there is no session yet");
  suite.expect(/^422 POST \/login\/code/);
  await other.getByLabel("Code of your app").fill("000000x");
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.getByText("The code is wrong").waitFor();
  await other.getByLabel("Code of your app").fill(recovery[3]);
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.waitForURL("**/keyboard");
  await suite.open(other, "/account");
  await other.getByText("You have 9 recovery codes left.").waitFor();
  await other.context().close();

  const users = await suite.page({ cookie: admin });
  await suite.open(users, "/users");
  await users.getByText("Remove second factor…").click();
  await check(users, "second-factor-users");
  await users.getByRole("button", { name: "Remove the second factor" }).click();
  await users.getByText("The second factor of the user is removed.").waitFor();
  const answer = await service.send("/login", { name: "grace", password: PASSWORD });
  assert.equal(answer.headers.get("location"), "/");
  await users.context().close();
});

/** Gives the browser of a page an authenticator that keeps passkeys and verifies its user. */
async function addAuthenticator(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("WebAuthn.enable");
  const options = { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true };
  const { authenticatorId } = await session.send("WebAuthn.addVirtualAuthenticator", { options });
  return {
    credentials: async () => (await session.send("WebAuthn.getCredentials", { authenticatorId })).credentials,
    isVerified: (isUserVerified) => session.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified }),
    give: (credential) => session.send("WebAuthn.addCredential", { authenticatorId, credential }),
  };
}

test("without https and with an IP address, the page says why there are no passkeys", async () => {
  const page = await suite.page({ cookie: admin });
  await suite.open(page, "/account");
  await page.getByText("Passkeys need a host name, and the public URL of this server has an IP address.").waitFor();
  assert.equal(await page.getByRole("link", { name: "Add a passkey" }).count(), 0);
  await page.context().close();
});

test("a passkey is added, signs in alone and after the password, confirms, and is renamed and removed", async () => {
  service.environment.JOURNEYMAN_PUBLIC_URL = service.url.replace("127.0.0.1", "localhost");
  await service.restart();
  service.url = service.environment.JOURNEYMAN_PUBLIC_URL;
  const cookie = await service.createUser("mary", "member");
  const page = await suite.page({ cookie });
  const authenticator = await addAuthenticator(page);
  await suite.open(page, "/account");
  await page.getByRole("link", { name: "Add a passkey" }).click();
  await page.getByRole("heading", { name: "Add a passkey" }).waitFor();
  await check(page, "passkey-add");
  await page.getByLabel("Name").fill("My phone");
  await page.getByLabel("Name").press("Enter");
  await page.getByText("Your passkey is added.").waitFor();
  await page.getByText("My phone").first().waitFor();
  await check(page, "passkey-account");
  const [made] = await authenticator.credentials();
  assert.equal(made.rpId, "localhost");

  // The authenticator has a passkey of this user already.
  await page.getByRole("link", { name: "Add a passkey" }).click();
  await page.getByRole("button", { name: "Create the passkey" }).click();
  await page.getByText("has a passkey for your user already").waitFor();

  // A proof with the passkey keeps the form.
  await suite.open(page, "/keys/new");
  forgetProofs("mary");
  await page.getByLabel("Name", { exact: true }).fill("made with a passkey");
  await page.getByLabel("shop").check();
  suite.expect(/^403 POST \/keys/);
  await page.getByRole("button", { name: "Create key" }).click();
  await page.getByRole("heading", { name: "Confirm that it is you" }).waitFor();
  assert.equal(await page.getByLabel("Password").count(), 0, "the password alone is no proof");
  await check(page, "passkey-confirm");
  await page.getByRole("button", { name: "Use a passkey" }).click();
  await page.getByText("jmn_").first().waitFor();
  const [used] = await authenticator.credentials();
  await page.context().close();

  const other = await suite.page();
  const second = await addAuthenticator(other);
  await second.give(used);
  await suite.open(other, "/login?next=/keyboard");
  await other.getByRole("link", { name: "Sign in with a passkey" }).click();
  await other.getByRole("button", { name: "Use a passkey" }).waitFor();
  await check(other, "passkey-sign-in");
  await second.isVerified(false);
  await other.getByRole("button", { name: "Use a passkey" }).click();
  await other.getByText("No passkey was used").waitFor();
  await second.isVerified(true);
  await other.getByRole("button", { name: "Use a passkey" }).click();
  await other.waitForURL("**/keyboard");

  await other.context().clearCookies();
  await suite.open(other, "/login?next=/keyboard");
  await other.getByLabel("Name").fill("mary");
  await other.getByLabel("Password").fill(PASSWORD);
  await other.getByRole("button", { name: "Sign in", exact: true }).click();
  await other.getByRole("heading", { name: "Use your passkey" }).waitFor();
  await check(other, "passkey-code");
  await other.getByRole("button", { name: "Use a passkey" }).click();
  await other.waitForURL("**/keyboard");

  // The counter of a copy is behind.
  await other.context().clearCookies();
  const copied = await suite.page();
  const third = await addAuthenticator(copied);
  await third.give(used);
  await suite.open(copied, "/login/passkey");
  suite.expect(/^422 POST \/login\/passkey/);
  await copied.getByRole("button", { name: "Use a passkey" }).click();
  await copied.getByText("counter went back").waitFor();
  await copied.context().close();

  await suite.open(other, "/login/passkey?next=/account");
  await other.getByRole("button", { name: "Use a passkey" }).click();
  await other.waitForURL("**/account");
  await other.getByText("Rename…").click();
  await other.locator("input[id^=name-]").fill("Old phone");
  await other.getByRole("button", { name: "Rename the passkey" }).click();
  await other.getByText("Your passkey has another name.").waitFor();
  await other.getByText("Remove…").click();
  await check(other, "passkey-remove");
  await other.getByRole("button", { name: "Remove the passkey" }).click();
  await other.getByText("Your passkey is removed.").waitFor();
  const answer = await service.send("/login", { name: "mary", password: PASSWORD });
  assert.equal(answer.headers.get("location"), "/", "the password is enough again");

  // The operator removes the passkeys of a user.
  await other.getByRole("link", { name: "Add a passkey" }).click();
  await other.getByRole("button", { name: "Create the passkey" }).click();
  await other.getByText("Your passkey is added.").waitFor();
  await other.getByText("Rename…").waitFor();
  service.command("user", "remove-second-factor", "mary", "--yes");
  await suite.open(other, "/account");
  await other.getByRole("link", { name: "Add a passkey" }).waitFor();
  assert.equal(await other.getByText("Rename…").count(), 0);
  await other.context().close();
});
