import type { Page } from "@playwright/test";
import type { ChangeResult, StatementOrder, TopStatement } from "../../src/api/types";
import { live, signIn, visit } from "../page";
import { expect, overbook, test } from "./site";

test.beforeEach(async ({ page, site }) => {
  await signIn(page, site.url);
  await live(page);
});

test("what a tenant was promised, wanted and got is drawn, and said", async ({ page, site }) => {
  await visit(page, `#/tenant/${site.busy[0]}`);
  for (const title of ["Throughput", "Latency", "CPU", "I/O of volume default", "Memory", "Cache-size curve"])
    await expect(page.getByRole("img", { name: new RegExp(`^${title}`) })).toBeVisible();
  const cpu = page.locator("figure", { has: page.getByText("CPU", { exact: true }) });
  for (const line of ["given", "wanted", "promised", "at most"])
    await expect(cpu.locator(".legend-item", { hasText: line })).toBeVisible();
  await expect(cpu.locator(".legend-item", { hasText: "promised" }).locator(".legend-value")).toHaveText(/\d/);
  await expect(cpu.locator(".chart-verdict")).toHaveText(/^(Kept in all of|Broken in)/);
  await expect(page.getByRole("region", { name: "Waits since the server's start" })).toContainText("running");
  await expect(page.getByRole("region", { name: "Options in force" })).toContainText("cpu");
});

test("a broken promise is marked, with its cause", async ({ page, site }) => {
  test.skip(site.rowhouse === null, "made by load");
  const end = await overbook(site);
  try {
    await visit(page, `#/tenant/${site.noisy}`);
    const cpu = page.locator("figure", { has: page.getByText("CPU", { exact: true }) });
    // The cause of the most intervals stands first; while the promises were altered there may have been another one.
    await expect(cpu.locator(".chart-verdict")).toHaveText(
      /^Broken in \d+ of \d+ s: \d+ × overbooked \(more was wanted than there is\)/,
    );
    await page.getByRole("button", { name: "CPU: show as a table" }).click();
    const rows = page.getByRole("group", { name: "CPU, as a table" }).locator("tbody tr");
    await expect(rows.filter({ hasText: /missed 0\.\d+: overbooked/ })).not.toHaveCount(0);
    await visit(page, "#/");
    await expect(page.locator(".tile.is-bad")).toContainText("CPU");
  } finally {
    await end();
  }
});

test("a running statement is cancelled, a session ended", async ({ page, site }) => {
  const sessions = page.getByRole("region", { name: "Sessions and what they run" });
  const ran = page.getByRole("region", { name: "Run from this page" }).getByRole("listitem").locator("code");
  if (site.rowhouse === null) {
    await visit(page, `#/tenant/${site.busy[0]}`);
    await sessions
      .getByRole("button", { name: /^Cancel the statement/ })
      .first()
      .click();
    await expect(page.locator(".toast")).toContainText("pg_cancel_backend");
    await visit(page, "#/manage");
    await expect(ran).toHaveText(/^SELECT pg_cancel_backend\(\d+\)$/);
    return;
  }
  const sleeper = site.rowhouse.session("select pg_sleep(5000);", site.quiet);
  await visit(page, `#/tenant/${site.quiet}`);
  const row = sessions.getByRole("row", { name: /pg_sleep/ });
  await expect(row).toContainText("active");
  await row.getByRole("button", { name: /^Cancel the statement/ }).click();
  await expect(page.locator(".toast")).toContainText("pg_cancel_backend");
  await expect(sessions.getByRole("button", { name: /^Cancel the statement/ })).toHaveCount(0);
  expect(sleeper.exitCode).toBeNull();
  await sessions
    .getByRole("button", { name: /^End session/ })
    .first()
    .click();
  await expect(sessions).toContainText("Nobody is connected.");
  // Like every change from this page, newest first.
  await visit(page, "#/manage");
  await expect(ran).toHaveText([/^SELECT pg_terminate_backend\(\d+\)$/, /^SELECT pg_cancel_backend\(\d+\)$/]);
});

test("who waits for whom is told", async ({ page, site }) => {
  if (site.rowhouse !== null) {
    await site.rowhouse.sql(
      "CREATE TABLE IF NOT EXISTS seats (id int primary key, taken int); INSERT INTO seats VALUES (1, 0) ON CONFLICT DO NOTHING",
      site.quiet,
    );
    site.rowhouse.session("begin; update seats set taken = 1 where id = 1;", site.quiet);
    // Once the first has the row, and not only its table, the second waits for it.
    const locks = async () =>
      ((await (await page.request.get(`${site.url}/api/tenants/${site.quiet}/locks`)).json()) as { rows: { relation: string }[] })
        .rows;
    await expect.poll(async () => (await locks()).some(({ relation }) => relation.startsWith("row of"))).toBe(true);
    site.rowhouse.session("update seats set taken = 2 where id = 1;", site.quiet);
  }
  await visit(page, `#/tenant/${site.rowhouse === null ? site.busy[0] : site.quiet}`);
  await expect(page.getByRole("region", { name: "Locks" })).toContainText(/waits for \d+/);
});

/** A figure as the page writes counts: `950`, `12.3 k`. */
function figureOf(text: string): number {
  const [, digits, unit = ""] = /^([\d.,]+)(?: ([kMG]))?$/.exec(text.trim()) ?? [];
  return digits === undefined ? NaN : Number(digits.replaceAll(",", "")) * ({ k: 1e3, M: 1e6, G: 1e9 }[unit] ?? 1);
}

const falls = (figures: readonly number[]): boolean =>
  figures.length > 2 && figures.every((one, i) => i === 0 || one <= (figures[i - 1] ?? NaN));

/** Ranks a tenant's top statements, and holds the page against what the server answered; the statements then. */
async function ranked(page: Page, tenant: string, label: string, by: StatementOrder): Promise<TopStatement[]> {
  await visit(page, `#/tenant/${tenant}`);
  const top = page.getByRole("region", { name: "Top statements" });
  await expect(top.getByRole("row").nth(1)).toContainText(/select|update|insert|copy|commit/i);
  const answer = page.waitForResponse((response) => response.url().includes(`/statements?by=${by}`));
  const choice = top.getByRole("button", { name: label, exact: true });
  await choice.click();
  await expect(choice).toHaveAttribute("aria-pressed", "true");
  const { rows } = (await (await answer).json()) as { rows: TopStatement[] };
  const column = (head: string) =>
    top.locator(`tbody td:nth-child(${["Statement", "Calls", "CPU", "I/Os"].indexOf(head) + 1})`).allTextContents();
  await expect.poll(() => column("Statement")).toEqual(rows.map(({ query }) => query));
  expect(falls((await column(by === "io" ? "I/Os" : "Calls")).map(figureOf))).toBe(true);
  return rows;
}

test("top statements are ranked by what one asks", async ({ page, site }) => {
  const byCalls = await ranked(page, site.busy[0] as string, "Calls", "calls");
  expect(byCalls[0]?.calls).toBeGreaterThan(1);
  // It reads more than it has memory for.
  const byIo = await ranked(page, site.noisy, "I/O", "io");
  expect(byIo[0]?.ios).toBeGreaterThan(0);
});

test("the cache-size curve has points, which are a table, too", async ({ page, site }) => {
  test.skip(site.rowhouse === null, "made by load");
  const name = site.noisy;
  await expect
    .poll(
      async () =>
        ((await (await page.request.get(`${site.url}/api/tenants/${name}`)).json()) as { cache_curve: unknown[] }).cache_curve
          .length,
      { timeout: 200_000 },
    )
    .toBeGreaterThan(2);
  await visit(page, `#/tenant/${name}`);
  await page.getByRole("button", { name: "Cache-size curve: show as a table" }).click();
  const rows = page.getByRole("group", { name: "Cache-size curve, as a table" }).getByRole("row");
  await expect(rows.nth(1).getByRole("rowheader")).toHaveText(/iB$/);
  await expect(rows.nth(1)).toContainText("%");
});

test("a goal that is set while advice is on its way counts", async ({ page, site }) => {
  let held = 0;
  await page.route("**/advise*", async (route) => {
    held += 1;
    if (held === 1) await new Promise((done) => setTimeout(done, 2000));
    await route.continue();
  });
  await visit(page, `#/tenant/${site.busy[1]}`);
  const goal = page.getByRole("region", { name: "Advisor" }).getByLabel(/^Goal for the 99th percentile/);
  const asked = page.waitForRequest((request) => request.url().includes("p99_ms=50"));
  await goal.fill("50");
  await goal.press("Enter");
  await asked;
  await expect.poll(() => held).toBe(2);
});

test("the advisor's proposal becomes a change that one sees first", async ({ page, site }) => {
  // A minute is on record once it is over.
  const candidates = async () =>
    (
      (await (await page.request.get(`${site.url}/api/tenants/${site.busy[1]}/advise`)).json()) as {
        rows: { candidate: string }[];
      }
    ).rows.map(({ candidate }) => candidate);
  await expect.poll(candidates, { timeout: 200_000 }).toContain("proposed");
  await visit(page, `#/tenant/${site.busy[1]}`);
  const advisor = page.getByRole("region", { name: "Advisor" });
  await advisor.getByLabel(/^Goal for the 99th percentile/).fill("50");
  await advisor.getByLabel(/^Goal for the 99th percentile/).press("Enter");
  await expect(advisor.getByRole("row", { name: /present/ })).toBeVisible();
  const apply = advisor.getByRole("button", { name: "Apply" }).last();
  await apply.click();
  const dialog = page.getByRole("dialog", { name: `Alter ${site.busy[1]}` });
  await expect(dialog.getByLabel("The statement")).toHaveText(new RegExp(`^ALTER TENANT "?${site.busy[1]}"? SET \\(`));
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await expect(dialog).toHaveCount(0);
  if (site.rowhouse === null) return;

  // The rows are those for the goal.
  await expect(advisor).toContainText("50 ms");
  // To its end: what was proposed is what is promised then.
  const row = (candidate: string) => advisor.getByRole("row").filter({ has: page.getByText(candidate, { exact: true }) });
  const promised = async (candidate: string) => (await row(candidate).getByRole("cell").allTextContents()).slice(2, 6);
  const proposed = await promised("proposed");
  expect(proposed).toHaveLength(4);
  await row("proposed").getByRole("button", { name: "Apply" }).click();
  await expect(dialog.getByLabel("The statement")).toHaveText(new RegExp(`^ALTER TENANT "?${site.busy[1]}"? SET \\(`));
  const answer = page.waitForResponse(
    (response) => response.request().method() === "PATCH" && !response.url().includes("dry_run"),
  );
  await dialog.getByRole("button", { name: "Alter tenant" }).click();
  const { notices } = (await (await answer).json()) as ChangeResult;
  // More may be promised than there is, which is said.
  if (notices?.length) await dialog.getByRole("button", { name: "Close" }).last().click();
  await expect(dialog).toHaveCount(0);
  await expect.poll(() => promised("present")).toEqual(proposed);
  await site.rowhouse.sql(`ALTER TENANT ${site.busy[1]} RESET (work_memory)`);
  await site.rowhouse.sql(`ALTER TENANT ${site.busy[1]} SET (cpu = 0.1, iops = 50, memory = '8MB')`);
});

test("a tenant that does not exist is said", async ({ page }) => {
  await visit(page, "#/tenant/nobody");
  await expect(page.getByRole("alert")).toContainText("3D000");
  await expect(page.getByRole("link", { name: "To the overview", exact: true })).toBeVisible();
  await expect(page.getByText("Live", { exact: true })).toBeVisible();
});
