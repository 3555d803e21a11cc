import { readFile } from "node:fs/promises";
import type { Page } from "@playwright/test";
import type { Report } from "../../src/api/types";
import { ledgerFigure, whole } from "../../src/format";
import { live, screenshot, signIn, visit } from "../page";
import { expect, overbook, test } from "./site";

test.beforeAll(async ({ site }) => {
  // So that something is broken on record, for a reason that is known.
  if (site.rowhouse !== null) await (await overbook(site))();
});

test.beforeEach(async ({ page, site }) => {
  await signIn(page, site.url);
  await live(page);
});

/** What the page asks for, asked for by the test. */
async function asked<T>(page: Page, url: string): Promise<T> {
  return (await (await page.request.get(url)).json()) as T;
}
const total = async (page: Page, url: string, query: string): Promise<number> =>
  (await asked<{ total: number }>(page, `${url}/api/ledger?limit=1&${query}`)).total;
const report = (page: Page, url: string, tenant: string, month: string): Promise<Report> =>
  asked(page, `${url}/api/reports/${tenant}?month=${month}`);

/** A minute is on record once it is over. */
const MINUTE = { timeout: 200_000 };
/** Of the ledger, counted from 1. */
const COLUMNS = { began: 1, tenant: 2, resource: 3, missed: 8, cause: 10 };
const column = (page: Page, of: keyof typeof COLUMNS): Promise<string[]> =>
  page.getByRole("region", { name: "Ledger" }).locator(`tbody td:nth-child(${COLUMNS[of]})`).allTextContents();
/** Until there are rows, and each has this in the column. */
const everyRow = (page: Page, of: keyof typeof COLUMNS, text: RegExp): Promise<void> =>
  expect
    .poll(async () => {
      const cells = await column(page, of);
      return cells.length > 0 && cells.every((cell) => text.test(cell));
    })
    .toBe(true);

/** By its name in an address, so many months from the present one. */
function monthFromNow(months: number): string {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months, 1)).toISOString().slice(0, 7);
}

test("the ledger is filtered, and goes on page by page", async ({ page, site }) => {
  // More than two pages of rows.
  await expect.poll(() => total(page, site.url, ""), { timeout: 180_000 }).toBeGreaterThan(250);
  await visit(page, "#/ledger");
  const ledger = page.getByRole("region", { name: "Ledger" });
  const filter = page.getByRole("search", { name: "Filter of the ledger" });
  const name = site.busy[0] as string;
  await filter.getByLabel("Tenant").fill(name);
  await filter.getByLabel("Resource").selectOption("cpu");
  await everyRow(page, "tenant", new RegExp(`^${name}$`));
  await everyRow(page, "resource", /^CPU$/);
  await filter.getByLabel("Tenant").fill("");
  await filter.getByLabel("Resource").selectOption("io");
  await everyRow(page, "resource", /^I\/O · /);
  await filter.getByLabel("Resource").selectOption("");
  await expect(ledger.getByRole("status")).toContainText("1 to 100 of");
  const turn = async (button: string, first: string) => {
    await ledger.getByRole("button", { name: button }).click();
    await expect(ledger.getByRole("status")).toHaveText(new RegExp(`^${first} to `));
  };
  await expect(ledger.getByRole("button", { name: "Newer" })).toBeDisabled();
  await turn("Older", "101");
  await turn("Older", "201");
  await turn("Newer", "101");
  await turn("Older", "201");
  await turn("Newest", "1");
  await expect(ledger.getByRole("button", { name: "Newer" })).toBeDisabled();
  // By whether it was kept, why not, and when.
  await filter.getByLabel("Promise").selectOption("true");
  await filter.getByLabel("Cause").selectOption("overbooked");
  await everyRow(page, "cause", /^overbooked$/);
  if (site.rowhouse !== null) {
    await filter.getByLabel("Tenant").fill(site.noisy);
    await filter.getByLabel("Resource").selectOption("cpu");
    await everyRow(page, "tenant", new RegExp(`^${site.noisy}$`));
    await everyRow(page, "cause", /^overbooked$/);
    await everyRow(page, "missed", /[1-9]/);
    await filter.getByLabel("Tenant").fill("");
    await filter.getByLabel("Resource").selectOption("");
  }
  await filter.getByLabel("Cause").selectOption("");
  await filter.getByLabel("Promise").selectOption("false");
  await everyRow(page, "cause", /^–$/);
  await expect(ledger.locator("tbody tr.is-broken")).toHaveCount(0);
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

test("by the minute the ledger has what its intervals come to", async ({ page, site }) => {
  test.skip(site.rowhouse === null, "the server's own sums");
  const query = `granularity=minute&tenant=${site.noisy}&resource=cpu&cause=overbooked`;
  await expect.poll(() => total(page, site.url, query), MINUTE).toBeGreaterThan(0);
  await visit(page, `#/ledger?tenant=${site.noisy}`);
  const filter = page.getByRole("search", { name: "Filter of the ledger" });
  await filter.getByLabel("Resource").selectOption("cpu");
  await filter.getByLabel("Cause").selectOption("overbooked");
  await filter.getByLabel("By", { exact: true }).selectOption("minute");
  await expect(page.getByRole("columnheader", { name: "Minute" })).toBeVisible();
  await everyRow(page, "began", /:00$/);
  await everyRow(page, "tenant", new RegExp(`^${site.noisy}$`));
  await everyRow(page, "missed", /[1-9]/);
  expect(await column(page, "cause")).toContain("overbooked");
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

// Whoever reads it elsewhere has another clock.
test.describe(() => {
  test.use({ timezoneId: "America/New_York" });
  test("a statement's month is by UTC, wherever it is read", async ({ page, site }) => {
    const month = monthFromNow(0);
    await visit(page, `#/statement/${site.busy[0]}/${month}`);
    await expect(page.locator(".statement-head")).toContainText(
      `${month} · ${month}-01 00:00:00 to ${monthFromNow(1)}-01 00:00:00 UTC`,
    );
  });
});

test("a statement of a month is there to print, with what was missed and why", async ({ page, site }) => {
  const month = monthFromNow(0);
  const name = site.noisy;
  const cpuOf = (of: Report) => of.resources.find(({ resource }) => resource === "cpu");
  await expect.poll(async () => cpuOf(await report(page, site.url, name, month))?.missed ?? 0, MINUTE).toBeGreaterThan(0);
  await visit(page, `#/ledger?tenant=${name}`);
  const answer = page.waitForResponse((response) => response.url().includes("/api/reports/"));
  await page.getByRole("link", { name: "Statement" }).click();
  const told = (await (await answer).json()) as Report;
  await expect(page).toHaveURL(new RegExp(`#/statement/${name}/${month}`));
  await expect(page.getByRole("heading", { level: 1, name: `Statement of promises: ${name}` })).toBeVisible();
  // Whoever was promised processor time and missed some finds how much of it, and what is owed for it.
  const cpu = cpuOf(told) as Report["resources"][number];
  for (const figure of ["intervals", "broken", "promised", "demanded", "given", "missed", "owed"] as const)
    expect(cpu[figure], figure).toBeGreaterThan(0);
  const sum = (of: "intervals" | "broken") => told.resources.reduce((all, one) => all + one[of], 0);
  const kept = (broken: number, intervals: number) => `${((100 * (intervals - broken)) / intervals).toFixed(3)} %`;
  await expect(page.locator(".statement-sum")).toHaveText(
    `Promises were kept in ${kept(sum("broken"), sum("intervals"))} of ${whole(sum("intervals"))} intervals; ${whole(sum("broken"))} were broken. Owed: ${told.owed?.toFixed(2)}.`,
  );
  await expect(page.getByRole("row", { name: /^Processor time/ }).getByRole("cell")).toHaveText([
    "Processor time",
    "core-s",
    whole(cpu.intervals),
    whole(cpu.broken),
    kept(cpu.broken, cpu.intervals),
    ...[cpu.promised, cpu.demanded, cpu.given, cpu.missed].map((amount) => ledgerFigure("cpu", amount)),
    cpu.owed?.toFixed(2) ?? "",
  ]);
  if (site.rowhouse !== null) {
    // Of I/O nothing is promised, so that nothing is kept, however much of it there was.
    const io = told.resources.find(({ resource, given }) => resource === "io" && Number(given) > 0);
    expect([io?.promised, io?.intervals]).toEqual([0, 0]);
    await expect(
      page
        .getByRole("row", { name: `I/O, volume ${io?.volume}` })
        .getByRole("cell")
        .nth(4),
    ).toHaveText("–");
  }
  const broken = page.locator(".statement-section", { hasText: "Processor time: what was broken" });
  await expect(broken.getByRole("row", { name: /^overbooked/ })).toContainText("more was wanted than there is");
  await expect(broken.getByRole("group", { name: "The worst" }).locator("tbody tr")).toHaveCount(cpu.worst.length);
  expect(cpu.worst.length).toBeGreaterThan(0);
  await page.emulateMedia({ media: "print" });
  await expect(page.getByRole("navigation", { name: "Pages" })).toBeHidden();
  await expect(page.getByRole("button", { name: "Print" })).toBeHidden();
  expect(await page.evaluate(() => getComputedStyle(document.querySelector(".statement") as Element).color)).toBe("rgb(0, 0, 0)");
  await screenshot(page, "statement-print");
  expect((await page.pdf()).subarray(0, 5).toString()).toBe("%PDF-");
});

test("a statement is of the month that one picks, in the ledger and on the statement", async ({ page, site }) => {
  const [month, before] = [monthFromNow(0), monthFromNow(-1)];
  const name = site.busy[0] as string;
  await expect.poll(async () => (await report(page, site.url, name, month)).resources.length, MINUTE).toBeGreaterThan(0);
  await visit(page, `#/ledger?tenant=${name}`);
  const picker = page.getByLabel("Month of the statement");
  await expect(picker).toHaveValue(month);
  await picker.fill(before);
  await page.getByRole("link", { name: "Statement" }).click();
  await expect(page).toHaveURL(new RegExp(`#/statement/${name}/${before}$`));
  const head = page.locator(".statement-head");
  await expect(head).toContainText(`${before} · ${before}-01 00:00:00 to `);
  // The server was not there then.
  if (site.rowhouse !== null) await expect(page.locator(".statement-sum")).toHaveText(/^Nothing is on record of this month/);
  await page.getByLabel("Month", { exact: true }).fill(month);
  await expect(page).toHaveURL(new RegExp(`#/statement/${name}/${month}$`));
  await expect(head).toContainText(`${month} · ${month}-01 00:00:00 to `);
  await expect(page.locator(".statement-sum")).toHaveText(/^(Every promise was kept|Promises were kept)/);
});
