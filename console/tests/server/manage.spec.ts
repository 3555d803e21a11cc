import type { Page } from "@playwright/test";
import { accessibility, live, screenshot, signIn, visit } from "../page";
import { expect, test } from "./site";

test.beforeEach(async ({ page, site }) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: site.url });
  await signIn(page, site.url);
  await live(page);
});

/** The open dialog, once its statement is this. */
async function shows(page: Page, sql: RegExp) {
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByLabel("The statement")).toHaveText(sql);
  return dialog;
}

async function run(page: Page, name: string): Promise<void> {
  await page.getByRole("dialog").getByRole("button", { name }).click();
}

test("a tenant is created, altered, moved and dropped, each by a statement that is shown first", async ({ page, site }) => {
  await visit(page, "#/manage");
  await page.getByRole("button", { name: "Create a tenant" }).click();
  const dialog = page.getByRole("dialog", { name: "Create a tenant" });
  await dialog.locator("[name=name]").fill("orchid");
  await dialog.locator("[name=password]").fill("pw of orchid");
  await dialog.locator("[name=size]").selectOption("small");
  await shows(page, /^CREATE TENANT .*orchid.* WITH \(.*size = .*small.*\)/);
  // A password is nowhere on the page.
  await expect(dialog.getByLabel("The statement")).not.toContainText("pw of orchid");
  await dialog.getByRole("button", { name: "Copy" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toMatch(/^CREATE TENANT/);
  await screenshot(page, "create-tenant", false);
  expect(await accessibility(page)).toEqual([]);
  await run(page, "Create tenant");
  await expect(dialog).toHaveCount(0);
  await expect(page.getByRole("region", { name: "Run from this page" })).toContainText("CREATE TENANT");
  if (site.rowhouse) expect(await site.rowhouse.sql("SHOW TENANTS")).toContain("orchid");

  await visit(page, "#/tenant/orchid");
  await page.getByRole("button", { name: "Alter", exact: true }).click();
  await page.getByRole("dialog").locator("[name=cpu]").fill("0.07");
  await shows(page, /^ALTER TENANT .*orchid.* SET \(cpu = .*0\.07.*\)/);
  await run(page, "Alter tenant");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(page.getByRole("region", { name: "Options in force" })).toContainText("0.07");

  await page.getByRole("button", { name: "Move", exact: true }).click();
  await shows(page, /^ALTER TENANT .*orchid.* SET WORKER DEFAULT/);
  await run(page, "Move tenant");
  await expect(page.getByRole("dialog")).toHaveCount(0);

  await page.getByRole("button", { name: "Drop", exact: true }).click();
  const drop = page.getByRole("dialog", { name: "Drop orchid" });
  await expect(drop.getByRole("button", { name: "Drop tenant" })).toBeDisabled();
  await drop.locator("[name=confirm]").fill("orchid");
  await shows(page, /^DROP TENANT .*orchid/);
  await run(page, "Drop tenant");
  await expect(page.getByRole("grid", { name: "Tenants" })).toBeVisible();
  if (site.rowhouse) expect(await site.rowhouse.sql("SHOW TENANTS")).not.toContain("orchid");
});

test("a change is in the chart with the next frame, and does what it says", async ({ page, site }) => {
  test.skip(site.rowhouse === null, "made by load");
  await visit(page, `#/tenant/${site.noisy}`);
  const cpu = page.locator("figure", { has: page.getByText("CPU", { exact: true }) });
  const line = (name: string) => cpu.locator(".legend-item", { hasText: name }).locator(".legend-value");
  await page.evaluate((tenant) => {
    const seen: [number, number | null][] = [];
    (window as unknown as { seen: typeof seen }).seen = seen;
    new EventSource(`/api/live?tenant=${tenant}`).addEventListener("frame", ({ data }) => {
      const frame = JSON.parse(data as string) as { t_ms: number; tenant: { cpu: { max: number | null } } };
      seen.push([frame.t_ms, frame.tenant.cpu.max]);
    });
  }, site.noisy);
  await page.getByRole("button", { name: "Alter", exact: true }).click();
  await page.getByRole("dialog").getByText("At most", { exact: true }).click();
  await page.getByRole("dialog").locator("[name=cpu_max]").fill("0.2");
  await shows(page, /SET \(cpu_max = .*0\.2.*\)/);
  await run(page, "Alter tenant");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  const { now_ms } = (await (await page.request.get(`${site.url}/api/server`)).json()) as { now_ms: number };
  await expect(line("at most")).toHaveText(/^0\.20/);
  // Frames come each second: none that was made after the statement shows what was before.
  const after = () =>
    page.evaluate(
      (from) =>
        (window as unknown as { seen: [number, number | null][] }).seen.filter(([t_ms]) => t_ms >= from).map(([, max]) => max),
      now_ms,
    );
  await expect.poll(async () => (await after()).length).toBeGreaterThan(1);
  expect(new Set(await after())).toEqual(new Set([0.2]));
  await expect
    .poll(async () =>
      Number(
        await line("given")
          .textContent()
          .then((text) => text?.split(" ")[0]),
      ),
    )
    .toBeLessThan(0.3);
  await site.rowhouse?.sql(`ALTER TENANT ${site.noisy} RESET (cpu_max)`);
});

test("what the server refuses is said with its code, and nothing has changed", async ({ page, site }) => {
  await visit(page, `#/tenant/${site.quiet}`);
  await page.getByRole("button", { name: "Alter", exact: true }).click();
  await page.getByRole("dialog").locator("[name=cpu]").fill("half");
  await shows(page, /half/);
  await run(page, "Alter tenant");
  await expect(page.getByRole("dialog").getByRole("alert")).toContainText("22023");
  await screenshot(page, "refused", false);
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
});

test("what the server warns of is shown until one closes it", async ({ page, site }) => {
  await visit(page, `#/tenant/${site.quiet}`);
  test.skip(site.rowhouse === null, "the server's own arithmetic");
  await page.getByRole("button", { name: "Alter", exact: true }).click();
  await page.getByRole("dialog").locator("[name=cpu]").fill("3");
  await run(page, "Alter tenant");
  await expect(page.getByRole("dialog").getByText("WARNING")).toBeVisible();
  await screenshot(page, "warned", false);
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
  await site.rowhouse?.sql(`ALTER TENANT ${site.quiet} RESET (cpu)`);
});

test("sizes are created, altered and dropped", async ({ page }) => {
  await visit(page, "#/manage");
  const sizes = page.getByRole("region", { name: "Sizes" });
  await sizes.getByRole("button", { name: "Create a size" }).click();
  await page.getByRole("dialog").locator("[name=name]").fill("tiny");
  await page.getByRole("dialog").locator("[name=cpu]").fill("0.01");
  await shows(page, /^CREATE SIZE .*tiny.* AS \(cpu = .*0\.01.*\)/);
  await run(page, "Create size");
  await sizes.getByRole("button", { name: "Alter size tiny" }).click();
  await page.getByRole("dialog").locator("[name=iops]").fill("10");
  await shows(page, /^ALTER SIZE .*tiny.* SET \(iops = .*10.*\)/);
  await run(page, "Alter size");
  await expect(sizes.getByRole("row", { name: /tiny/ })).toContainText("10");
  await sizes.getByRole("button", { name: "Drop size tiny" }).click();
  await shows(page, /^DROP SIZE .*tiny/);
  await run(page, "Drop size");
  await expect(sizes.getByText("tiny")).toHaveCount(0);
});

test("a volume is limited, and has no limit again", async ({ page }) => {
  await visit(page, "#/manage");
  const volumes = page.getByRole("region", { name: "Volumes" });
  await volumes.getByRole("button", { name: "Limit volume default" }).click();
  await page.getByRole("dialog").locator("[name=iops_limit]").fill("45678");
  await shows(page, /^ALTER VOLUME .*default.* SET \(iops_limit = .*45678.*\)/);
  await run(page, "Alter volume");
  await expect(volumes.getByRole("row", { name: /default/ })).toContainText("45,678");
  await volumes.getByRole("button", { name: "Limit volume default" }).click();
  await page.getByRole("dialog").locator("[name=iops_limit]").fill("");
  await shows(page, /^ALTER VOLUME .*default.* RESET \(iops_limit\)/);
  await run(page, "Alter volume");
  await expect(volumes.getByRole("row", { name: /default/ })).not.toContainText("45,678");
});

test("a runaway rule is made, acts, and is dropped", async ({ page, site }) => {
  await visit(page, "#/manage");
  const rules = page.getByRole("region", { name: "Runaway rules" });
  await rules.getByRole("button", { name: "Create a rule" }).click();
  await page.getByRole("dialog").locator("[name=name]").fill("too_long");
  await page.getByRole("dialog").locator("[name=tenant]").fill(site.quiet);
  await page.getByRole("dialog").locator("[name=elapsed]").fill("1s");
  await page.getByRole("dialog").locator("[name=action]").selectOption("cancel");
  await shows(page, /^CREATE RUNAWAY RULE .*too_long.* AS \(.*elapsed = '1s'.*\)/);
  await run(page, "Create rule");
  const rule = rules.getByRole("row", { name: /too_long/ });
  await expect(rule).toContainText("1s");
  await expect(rule).toContainText(site.quiet);
  if (site.rowhouse) {
    // The administrator's sessions are held to no rule.
    const ended = await site.rowhouse.sqlOfOwner("select pg_sleep(5000)", site.quiet).catch((error: unknown) => String(error));
    expect(ended).toContain("too_long");
    await expect(rule.getByRole("cell").nth(7)).toHaveText("1");
  }
  await rules.getByRole("button", { name: "Drop rule too_long" }).click();
  await run(page, "Drop rule");
  await expect(rules.getByText("too_long")).toHaveCount(0);
});

test("the policy is switched, which shows everywhere without a reload", async ({ page, site }) => {
  await visit(page, "#/manage");
  await page
    .getByRole("group", { name: "Policy" })
    .getByRole("button", { name: /^Best effort/ })
    .click();
  await shows(page, /^ALTER SERVER SET \(policy = '?best_effort'?\)/);
  const changed = Date.now();
  await run(page, "Switch policy");
  await expect(page.getByRole("group", { name: "Policy" }).getByRole("button", { name: /^Best effort/ })).toHaveAttribute(
    "aria-pressed",
    "true",
  );
  console.log(`the page showed the change ${Date.now() - changed} ms after the click`);
  if (site.rowhouse) expect(await site.rowhouse.sql("SHOW SERVER")).toContain("best_effort");
  await visit(page, "#/");
  await expect(page.locator(".tile", { hasText: "Policy" })).toContainText("best effort");
  await visit(page, "#/manage");
  await page
    .getByRole("group", { name: "Policy" })
    .getByRole("button", { name: /^Reservations/ })
    .click();
  await run(page, "Switch policy");
  await expect(page.getByRole("group", { name: "Policy" }).getByRole("button", { name: /^Reservations/ })).toHaveAttribute(
    "aria-pressed",
    "true",
  );
});

test("a change from elsewhere shows here, too", async ({ page, site }) => {
  test.skip(site.rowhouse === null, "by SQL");
  await visit(page, "#/manage");
  await site.rowhouse?.sql("ALTER SERVER SET (overbooking = 'least_penalty')");
  await expect(page.getByRole("region", { name: "Server" })).toContainText("least_penalty");
  await site.rowhouse?.sql("ALTER SERVER RESET (overbooking)");
  await expect(page.getByRole("region", { name: "Server" })).toContainText("spread");
});
