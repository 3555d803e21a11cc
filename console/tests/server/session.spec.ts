// Who gets in, and who does not.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { signIn } from "../page";
import { expect, test } from "./site";

const READS = [
  "/api/session",
  "/api/server",
  "/api/tenants",
  "/api/sizes",
  "/api/runaway-rules",
  "/api/ledger",
  "/api/ledger.csv",
  "/api/live",
  "/api/tenants/system",
];

test("one signs in with the administrator's password, and out", async ({ page, site }) => {
  await page.goto(site.url);
  await page.getByLabel("User").fill("admin");
  await page.getByLabel("Password").fill("not this");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("alert")).toContainText("do not match");
  await signIn(page, site.url);
  await page.reload();
  await expect(page.getByRole("navigation", { name: "Pages" })).toBeVisible();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByRole("button", { name: "Sign in" })).toBeVisible();
  await page.reload();
  await expect(page.getByRole("button", { name: "Sign in" })).toBeVisible();
});

test("without a session nothing is told", async ({ request, site }) => {
  for (const path of READS) expect((await request.get(site.url + path)).status(), path).toBe(401);
});

test("what comes from another site, or lacks the token, changes nothing", async ({ page, site }) => {
  await signIn(page, site.url);
  const change = (headers: Record<string, string>) =>
    page.request.patch(`${site.url}/api/server`, { data: { options: { policy: "best_effort" } }, headers });
  expect((await change({})).status()).toBe(403);
  expect((await change({ "x-csrf-token": "wrong" })).status()).toBe(403);
  if (site.rowhouse !== null) {
    const { csrf } = (await (await page.request.get(`${site.url}/api/session`)).json()) as { csrf: string };
    expect((await change({ "x-csrf-token": csrf, origin: "https://elsewhere.example" })).status()).toBe(403);
    expect((await change({ "x-csrf-token": csrf, "sec-fetch-site": "cross-site" })).status()).toBe(403);
    expect(await site.rowhouse.sql("SHOW SERVER")).toContain("reservations");
  }
});

// Another port of this machine, whose pages the browser sends the session's cookie for, and another site, for which it does not.
for (const host of ["127.0.0.1", "localhost"])
  test(`a page of ${host === "localhost" ? "another site" : "another server on this machine"} reads nothing and changes nothing`, async ({
    page,
    site,
  }) => {
    test.skip(site.rowhouse === null, "what the server refuses");
    await signIn(page, site.url);
    const elsewhere = createServer((_, answer) => answer.writeHead(200, { "content-type": "text/html" }).end("<!doctype html>"));
    await new Promise<void>((done) => elsewhere.listen(0, host, done));
    try {
      const other = await page.context().newPage();
      const { port } = elsewhere.address() as AddressInfo;
      await other.goto(`http://${host}:${port}/`);
      const statuses = new Map<string, number>();
      other.on("response", (response) => statuses.set(new URL(response.url()).pathname, response.status()));
      const outcome = await other.evaluate(async (url) => {
        const attempt = (path: string, options: RequestInit) =>
          fetch(url + path, { credentials: "include", ...options }).then(
            (answer) => answer.type,
            () => "refused",
          );
        const loaded = (element: HTMLElement & { src: string }, path: string) =>
          new Promise<string>((done) => {
            element.onload = () => done("loaded");
            element.onerror = () => done("refused");
            element.src = url + path;
            document.body.append(element);
          });
        const stream = new EventSource(`${url}/api/live`, { withCredentials: true });
        const heard = new Promise<string>((done) => {
          stream.onerror = () => done("refused");
          for (const event of ["history", "frame"]) stream.addEventListener(event, () => done("heard"));
        });
        // A form asks nobody before it is sent.
        const frame = document.createElement("iframe");
        frame.name = "answer";
        const form = Object.assign(document.createElement("form"), {
          method: "post",
          enctype: "text/plain",
          action: `${url}/api/logout`,
          target: "answer",
        });
        document.body.append(frame, form);
        form.submit();
        const found = {
          change: await attempt("/api/server", {
            method: "PATCH",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ options: { policy: "best_effort" } }),
          }),
          read: await attempt("/api/server", {}),
          blind: await attempt("/api/tenants", { mode: "no-cors" }),
          script: await loaded(document.createElement("script"), "/api/session"),
          stream: await heard,
        };
        stream.close();
        return found;
      }, site.url);
      expect(outcome).toEqual({ change: "refused", read: "refused", blind: "refused", script: "refused", stream: "refused" });
      await expect.poll(() => statuses.get("/api/logout")).toBe(403);
      await other.close();
    } finally {
      elsewhere.close();
    }
    await page.reload();
    await expect(page.getByRole("navigation", { name: "Pages" })).toBeVisible();
    expect(await site.rowhouse?.sql("SHOW SERVER")).toContain("reservations");
  });

test("the page may load nothing from elsewhere, and nobody may frame it", async ({ request, site }) => {
  test.skip(site.rowhouse === null, "headers of the server");
  const headers = (await request.get(site.url)).headers();
  expect(headers["content-security-policy"]).toContain("default-src 'self'");
  expect(headers["content-security-policy"]).not.toContain("unsafe");
});

test("a role that is no superuser sees all and changes nothing", async ({ page, site }) => {
  if (site.rowhouse) await site.rowhouse.sql("CREATE ROLE watcher LOGIN PASSWORD 'secret'");
  await signIn(page, site.url, site.rowhouse ? "watcher" : "viewer");
  await expect(page.locator(".top .who")).toContainText("viewer");
  await page.evaluate(() => (location.hash = "#/manage"));
  await expect(page.getByText("nothing can be changed")).toBeVisible();
  await expect(page.getByRole("region", { name: "Sizes" }).getByRole("row", { name: /small/ })).toBeVisible();
  for (const name of ["Create a tenant", "Alter", "Create a size", "Create a rule", /^Drop/])
    await expect(page.getByRole("button", { name })).toHaveCount(0);
  await expect(page.getByRole("group", { name: "Policy" }).getByRole("button", { name: /^Best effort/ })).toBeDisabled();
  await page.evaluate((name) => (location.hash = `#/tenant/${name}`), site.busy[0]);
  await expect(page.getByRole("heading", { level: 1, name: site.busy[0] as string })).toBeVisible();
  await expect(page.getByRole("link", { name: "Statement" })).toBeVisible();
  // Sessions are there, and nothing to end them by.
  const sessions = page.getByRole("region", { name: "Sessions and what they run" });
  await expect(sessions.getByRole("row").nth(1)).toBeVisible();
  for (const name of ["Alter", "Move", "Drop", /^Cancel the statement/, /^End session/])
    await expect(page.getByRole("button", { name, exact: true })).toHaveCount(0);
  const { csrf } = (await (await page.request.get(`${site.url}/api/session`)).json()) as { csrf: string };
  expect(
    (
      await page.request.patch(`${site.url}/api/server`, {
        data: { options: { policy: "best_effort" } },
        headers: { "x-csrf-token": csrf },
      })
    ).status(),
  ).toBe(403);
  if (site.rowhouse) {
    // Its account gone, the session goes within half a minute, whatever page is open.
    await site.rowhouse.sql("DROP ROLE watcher");
    await expect(page.getByRole("alert")).toHaveText("Your session has ended.", { timeout: 120_000 });
    await expect(page.getByRole("button", { name: "Sign in" })).toBeVisible();
  }
});
