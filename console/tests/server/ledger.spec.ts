import { readFile } from "node:fs/promises";
import { live, screenshot, signIn, visit } from "../page";
import { expect, test } from "./site";

test.beforeEach(async ({ page, site }) => {
  await signIn(page, site.url);
  await live(page);
});

test("the ledger is filtered, and goes on page by page", async ({ page, site }) => {
  // More than a page of rows.
  await expect
    .poll(async () => ((await (await page.request.get(`${site.url}/api/ledger?limit=1`)).json()) as { total: number }).total, {
      timeout: 180_000,
    })
    .toBeGreaterThan(150);
  await visit(page, "#/ledger");
  const ledger = page.getByRole("region", { name: "Ledger" });
  const filter = page.getByRole("search", { name: "Filter of the ledger" });
  const name = site.busy[0] as string;
  await filter.getByLabel("Tenant").fill(name);
  await filter.getByLabel("Resource").selectOption("cpu");
  await expect(ledger.getByRole("row").nth(1)).toContainText(name);
  await expect
    .poll(async () =>
      (await ledger.locator("tbody tr").allTextContents()).every((row) => row.includes(name) && row.includes("CPU")),
    )
    .toBe(true);
  await filter.getByLabel("Tenant").fill("");
  await filter.getByLabel("Resource").selectOption("");
  await expect(ledger.getByRole("status")).toContainText("1 to 100 of");
  await ledger.getByRole("button", { name: "Older" }).click();
  await expect(ledger.getByRole("status")).toContainText("101 to");
  await ledger.getByRole("button", { name: "Newest" }).click();
  await expect(ledger.getByRole("status")).toContainText("1 to 100 of");
  // By whether it was kept, why not, and when.
  await filter.getByLabel("Promise").selectOption("true");
  await filter.getByLabel("Cause").selectOption("overbooked");
  await expect
    .poll(async () => (await ledger.locator("tbody tr").allTextContents()).every((row) => row.includes("overbooked")))
    .toBe(true);
  await filter.getByLabel("Cause").selectOption("");
  await filter.getByLabel("Promise").selectOption("false");
  await expect.poll(() => ledger.locator("tbody tr.is-broken").count()).toBe(0);
  await filter.getByLabel("Promise").selectOption("");
  const hour = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString().slice(0, 19);
  await filter.getByLabel("From").fill(hour(1));
  await expect(ledger.getByText("Nothing on record fits the filter.")).toBeVisible();
  await filter.getByLabel("From").fill(hour(-1));
  await expect(ledger.getByRole("status")).toContainText("1 to 100 of");
  await filter.getByLabel("Until").fill(hour(-1));
  await expect(ledger.getByText("Nothing on record fits the filter.")).toBeVisible();
  await filter.getByLabel("From").fill("");
  await filter.getByLabel("Until").fill("");
  await expect(ledger.getByRole("status")).toContainText("1 to 100 of");
  await filter.getByLabel("Tenant").fill("nobody");
  await expect(ledger.getByText("Nothing on record fits the filter.")).toBeVisible();
});

test("what is filtered can be taken along as CSV", async ({ page, site }) => {
  await visit(page, `#/ledger?tenant=${site.busy[0]}`);
  await expect(page.getByRole("search").getByLabel("Tenant")).toHaveValue(site.busy[0] as string);
  await expect(page.getByRole("region", { name: "Ledger" }).getByRole("row").nth(1)).toBeVisible();
  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "CSV" }).click();
  const [head, ...rows] = (await readFile(await (await download).path(), "utf8")).trim().split(/\r?\n/);
  expect(head).toContain("tenant");
  expect(rows.length).toBeGreaterThan(0);
  for (const row of rows) expect(row).toContain(site.busy[0] as string);
});

test("a statement of a month is there to print", async ({ page, site }) => {
  const month = new Date().toISOString().slice(0, 7);
  await visit(page, `#/ledger?tenant=${site.busy[0]}`);
  await page.getByRole("link", { name: "Statement" }).click();
  await expect(page).toHaveURL(new RegExp(`#/statement/${site.busy[0]}/${month}`));
  await expect(page.getByRole("heading", { level: 1, name: `Statement of promises: ${site.busy[0]}` })).toBeVisible();
  await expect(page.locator(".statement-sum")).not.toBeEmpty();
  await page.emulateMedia({ media: "print" });
  await expect(page.getByRole("navigation", { name: "Pages" })).toBeHidden();
  await expect(page.getByRole("button", { name: "Print" })).toBeHidden();
  expect(await page.evaluate(() => getComputedStyle(document.querySelector(".statement") as Element).color)).toBe("rgb(0, 0, 0)");
  await screenshot(page, "statement-print");
  expect((await page.pdf()).subarray(0, 5).toString()).toBe("%PDF-");
});
