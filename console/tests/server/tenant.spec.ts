import { live, signIn, visit } from "../page";
import { expect, test } from "./site";

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
  const { rowhouse } = site;
  test.skip(rowhouse === null, "made by load");
  if (rowhouse === null) return;
  // Three that want more than they get, promised more than the one worker has.
  await rowhouse.sql(`ALTER TENANT ${site.noisy} SET (cpu = 1)`);
  for (const name of site.busy) await rowhouse.sql(`ALTER TENANT ${name} SET (cpu = 0.9)`);
  await visit(page, `#/tenant/${site.noisy}`);
  const cpu = page.locator("figure", { has: page.getByText("CPU", { exact: true }) });
  await expect(cpu.locator(".chart-verdict")).toHaveText(/^Broken in \d+ of \d+ s: \d+ × (overbooked|system|neighbour)/);
  await visit(page, "#/");
  await expect(page.locator(".tile.is-bad")).toContainText("CPU");
  await rowhouse.sql(`ALTER TENANT ${site.noisy} RESET (cpu)`);
  for (const name of site.busy) await rowhouse.sql(`ALTER TENANT ${name} SET (cpu = 0.1)`);
});

test("a running statement is cancelled, a session ended", async ({ page, site }) => {
  const sessions = page.getByRole("region", { name: "Sessions and what they run" });
  if (site.rowhouse === null) {
    await visit(page, `#/tenant/${site.busy[0]}`);
    await sessions
      .getByRole("button", { name: /^Cancel the statement/ })
      .first()
      .click();
    await expect(page.locator(".toast")).toContainText("pg_cancel_backend");
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

test("top statements are ranked by what one asks", async ({ page, site }) => {
  await visit(page, `#/tenant/${site.busy[0]}`);
  const top = page.getByRole("region", { name: "Top statements" });
  await expect(top.getByText("Loading")).toHaveCount(0);
  await expect(top.getByRole("row").nth(1)).toContainText(/select|update|insert|copy/i);
  const calls = top.getByRole("button", { name: "Calls" });
  await calls.click();
  await expect(calls).toHaveAttribute("aria-pressed", "true");
  await expect(top.getByRole("row").nth(1)).toContainText(/select|update|insert|copy|begin|commit/i);
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
});

test("a tenant that does not exist is said", async ({ page }) => {
  await visit(page, "#/tenant/nobody");
  await expect(page.getByRole("alert")).toContainText("3D000");
  await expect(page.getByRole("link", { name: "To the overview", exact: true })).toBeVisible();
});
