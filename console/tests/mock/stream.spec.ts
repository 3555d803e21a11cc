// What happens when the server goes away, refuses, or ends the session.
import { live, screenshot, signIn, visit } from "../page";
import { expect, test } from "./mock";

test("a lost stream is said, tried again, and makes up for what was missed", async ({ page, mock }) => {
  await signIn(page, mock.url);
  await live(page);
  const rows = page.getByRole("group", { name: "CPU, as a table" }).locator("tbody tr");
  await page.getByRole("button", { name: "CPU: show as a table" }).click();
  await expect(rows.first()).toBeVisible();
  mock.cut(true);
  await expect(page.locator(".connection")).toContainText("Disconnected, again in");
  await screenshot(page, "disconnected", false);
  // What was drawn stays.
  await expect(rows.first()).toBeVisible();
  mock.cut(false);
  await live(page);
});

test("failed requests are said where their answer would stand, and can be tried again", async ({ page, mock }) => {
  await signIn(page, mock.url);
  mock.fail(1, "/api/tenants/acme");
  await visit(page, "#/tenant/acme");
  await expect(page.getByRole("alert")).toContainText("57P03");
  await expect(page.getByRole("alert")).toContainText("the server is stopping");
  await screenshot(page, "failed", false);
  await visit(page, "#/");
  await expect(page.getByRole("grid", { name: "Tenants" }).locator(".tenant-link").first()).not.toBeEmpty();
  mock.fail(Infinity, "/api/tenants");
  await page.getByRole("searchbox", { name: "Search tenants" }).fill("acme");
  await expect(page.getByRole("button", { name: "Try again" })).toBeVisible();
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByRole("button", { name: "Try again" })).toBeVisible();
  mock.fail(0, "/api/tenants");
  await expect(page.getByRole("grid", { name: "Tenants" }).locator('[aria-rowindex="2"] .tenant-link')).toContainText("acme");
});

test("an expired session asks to sign in again, and goes on where one was", async ({ page, mock }) => {
  await signIn(page, mock.url);
  await live(page);
  await visit(page, "#/manage");
  mock.expire();
  await expect(page.getByRole("alert")).toHaveText("Your session has ended.");
  await page.getByLabel("Password").fill("secret");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Manage" })).toBeVisible();
});

test("too many tries to sign in are said", async ({ page, mock }) => {
  await page.goto(mock.url);
  for (const [status, text] of [
    [401, "do not match"],
    [429, "Too many attempts"],
  ] as const) {
    mock.refuseLogin(status);
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("alert")).toContainText(text);
  }
});

test("an interface that the server does not have is said as that", async ({ page, mock }) => {
  await page.route("**/statements?*", (route) =>
    route.fulfill({ status: 501, json: { error: { code: "0A000", message: "not counted", detail: null, hint: null } } }),
  );
  await signIn(page, mock.url);
  await visit(page, "#/tenant/acme");
  await expect(page.getByRole("region", { name: "Top statements" })).toContainText("This server does not tell this.");
});
