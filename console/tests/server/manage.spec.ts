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

/** As `run`; the server's time once it has answered. */
async function answered(page: Page, url: string, name: string): Promise<number> {
  const answer = page.waitForResponse(
    (response) => response.request().method() === "PATCH" && !response.url().includes("dry_run"),
  );
  await run(page, name);
  expect((await answer).status()).toBe(200);
  return ((await (await page.request.get(`${url}/api/server`)).json()) as { now_ms: number }).now_ms;
}

/** What a frame tells of a tenant's processor time. */
interface Told {
  t_ms: number;
  max: number | null;
  given: number;
}

/** Listens to a tenant's frames from now on, by a stream of its own; what it returns answers with those so far. */
async function listen(page: Page, tenant: string): Promise<() => Promise<Told[]>> {
  await page.evaluate((name) => {
    const told: Told[] = [];
    (window as unknown as { told: Told[] }).told = told;
    new EventSource(`/api/live?tenant=${name}`).addEventListener("frame", ({ data }) => {
      const frame = JSON.parse(data as string) as { t_ms: number; tenant: { cpu: { max: number | null; given: number } } };
      told.push({ t_ms: frame.t_ms, max: frame.tenant.cpu.max, given: frame.tenant.cpu.given });
    });
  }, tenant);
  return () => page.evaluate(() => (window as unknown as { told: Told[] }).told);
}

const latest = async (told: () => Promise<Told[]>): Promise<number> => (await told()).at(-1)?.given ?? 0;

/**
 * Cores that a tenant took since an instant, by the first frame that was made a second or more after it. Such a frame tells of the time since the one before it: where that
 * one came before the instant, a whole core is allowed for the time until then.
 */
async function takenSince(told: () => Promise<Told[]>, instant_ms: number): Promise<number> {
  const isLater = ({ t_ms }: Told): boolean => t_ms >= instant_ms + 1000;
  await expect.poll(async () => (await told()).some(isLater)).toBe(true);
  const frames = await told();
  const at = frames.findIndex(isLater);
  const [before, first] = [frames[at - 1], frames[at]];
  if (before === undefined || first === undefined) throw new Error("nothing was heard before the instant");
  const allowed_s = Math.max(0, instant_ms - before.t_ms) / 1000;
  const whole_s = (first.t_ms - before.t_ms) / 1000;
  return Math.max(0, first.given * whole_s - allowed_s) / (whole_s - allowed_s);
}

/** A limit, and what a tenant at work takes at least without it, and at most with it: a statement under way ends beyond it. */
const LIMIT = { cores: 0.1, without: 0.3, within: 0.25 };

test("a tenant is created, altered, moved and dropped, each by a statement that is shown first", async ({ page, site }) => {
  await visit(page, "#/manage");
  await page.getByRole("button", { name: "Create a tenant" }).click();
  const dialog = page.getByRole("dialog", { name: "Create a tenant" });
  await dialog.locator("[name=name]").fill("orchid");
  await dialog.locator("[name=password]").fill("pw of orchid");
  await expect(dialog.getByLabel("Copy of tenant")).toBeDisabled();
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

test("a tenant is made as a copy of another one, without a password of its own", async ({ page, site }) => {
  await site.rowhouse?.sql("CREATE TABLE kept (v text); INSERT INTO kept VALUES ('as it was')", site.quiet);
  await visit(page, "#/manage");
  await page.getByRole("button", { name: "Create a tenant" }).click();
  const dialog = page.getByRole("dialog", { name: "Create a tenant" });
  const [template, password] = [dialog.getByLabel("Copy of tenant"), dialog.getByLabel("Owner's password")];
  await dialog.getByLabel("Name", { exact: true }).fill("orchid_copy");
  // One or the other: the server takes no password with a template.
  await password.fill("pw");
  await expect(template).toBeDisabled();
  await expect(template).toHaveAccessibleDescription(/not with a password/);
  await password.fill("");
  await template.fill(site.quiet);
  await expect(password).toBeDisabled();
  await expect(password).toHaveAccessibleDescription(/not for a copy/);
  await shows(page, new RegExp(`^CREATE TENANT "?orchid_copy"? FROM TEMPLATE "?${site.quiet}"?$`));
  await run(page, "Create tenant");
  await expect(dialog).toHaveCount(0);
  await visit(page, "#/tenant/orchid_copy");
  await expect(page.getByRole("heading", { level: 1, name: "orchid_copy" })).toBeVisible();
  if (site.rowhouse === null) return;
  const { rowhouse } = site;
  expect(await rowhouse.sql("SELECT v FROM kept", "orchid_copy")).toBe("as it was");
  // Its last session may be just ending.
  await expect(async () => void (await rowhouse.sql("DROP TENANT orchid_copy"))).toPass({ timeout: 30_000 });
  await rowhouse.sql("DROP TABLE kept", site.quiet);
});

test("what is taken back and what is set are two statements, both shown first", async ({ page, site }) => {
  test.skip(site.rowhouse === null, "options of the server");
  await site.rowhouse?.sql(`ALTER TENANT ${site.quiet} SET (iops = 77)`);
  await visit(page, `#/tenant/${site.quiet}`);
  const inForce = page.getByRole("region", { name: "Options in force" });
  await expect(inForce).toContainText("77");
  await page.getByRole("button", { name: "Alter", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.locator("[name=iops]")).toHaveValue("77");
  await dialog.locator("[name=iops]").fill("");
  await dialog.locator("[name=cpu]").fill("0.03");
  const both = new RegExp(
    `^ALTER TENANT "${site.quiet}" RESET \\(iops\\);\\sALTER TENANT "${site.quiet}" SET \\(cpu = 0\\.03\\)$`,
  );
  await shows(page, both);
  await run(page, "Alter tenant");
  await expect(dialog).toHaveCount(0);
  await expect(inForce).toContainText("0.03");
  await expect(inForce).not.toContainText("77");
  await visit(page, "#/manage");
  await expect(page.getByRole("region", { name: "Run from this page" }).getByRole("listitem").locator("code")).toHaveText(both);
  await site.rowhouse?.sql(`ALTER TENANT ${site.quiet} RESET (cpu)`);
});

test("a change is in the chart with the next frame, and does what it says within a second", async ({ page, site }) => {
  test.skip(site.rowhouse === null, "made by load");
  await visit(page, `#/tenant/${site.noisy}`);
  const cpu = page.locator("figure", { has: page.getByText("CPU", { exact: true }) });
  const line = (name: string) => cpu.locator(".legend-item", { hasText: name }).locator(".legend-value");
  const told = await listen(page, site.noisy);
  await expect.poll(() => latest(told), { timeout: 60_000 }).toBeGreaterThan(LIMIT.without);
  await page.getByRole("button", { name: "Alter", exact: true }).click();
  await page.getByRole("dialog").getByText("At most", { exact: true }).click();
  await page.getByRole("dialog").locator("[name=cpu_max]").fill(String(LIMIT.cores));
  await shows(page, /SET \(cpu_max = .*0\.1.*\)/);
  const changed_ms = await answered(page, site.url, "Alter tenant");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  expect(await takenSince(told, changed_ms)).toBeLessThan(LIMIT.within);
  await expect(line("at most")).toHaveText(/^0\.10/);
  // Frames come each second: none that was made after the statement shows what was before.
  const after = async () => (await told()).filter(({ t_ms }) => t_ms >= changed_ms).map(({ max }) => max);
  await expect.poll(async () => (await after()).length).toBeGreaterThan(1);
  expect(new Set(await after())).toEqual(new Set([LIMIT.cores]));
  await expect
    .poll(async () => Number((await line("given").textContent())?.split(" ")[0]), { timeout: 60_000 })
    .toBeLessThan(LIMIT.within);
  await site.rowhouse?.sql(`ALTER TENANT ${site.noisy} RESET (cpu_max)`);
});

test("what the server refuses is said with its code, and nothing has changed", async ({ page, site }) => {
  const options = async () =>
    ((await (await page.request.get(`${site.url}/api/tenants/${site.quiet}`)).json()) as { options: object }).options;
  const before = await options();
  await visit(page, `#/tenant/${site.quiet}`);
  await page.getByRole("button", { name: "Alter", exact: true }).click();
  await page.getByRole("dialog").locator("[name=cpu]").fill("half");
  await shows(page, /half/);
  await run(page, "Alter tenant");
  await expect(page.getByRole("dialog").getByRole("alert")).toContainText("22023");
  await screenshot(page, "refused", false);
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  expect(await options()).toEqual(before);
  await visit(page, "#/manage");
  await expect(page.getByRole("region", { name: "Run from this page" })).toContainText("Nothing yet.");
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

test("the server is altered: how long an interval of the ledger is", async ({ page, site }) => {
  test.skip(site.rowhouse === null, "an option of the server");
  await visit(page, "#/manage");
  const panel = page.getByRole("region", { name: "Server", exact: true });
  const interval = panel.locator(".facts div", { hasText: "Metering interval" });
  await expect(interval).toContainText("1 s");
  // Of the workers' time, of whom there is one here, whatever the machine has.
  await expect(panel.locator(".facts div", { hasText: "CPU promised" })).toContainText(/ of 1 core \(\d+ %\)$/);
  await panel.getByRole("button", { name: "Alter", exact: true }).click();
  const field = page.getByRole("dialog", { name: "Alter the server" }).getByLabel("Metering interval");
  await expect(field).toHaveValue("1000ms");
  await field.fill("500ms");
  await shows(page, /^ALTER SERVER SET \(metering_interval = '500ms'\)$/);
  await run(page, "Alter server");
  await expect(interval).toContainText("500 ms");
  expect(await site.rowhouse?.sql("SHOW SERVER")).toContain("500ms");
  await panel.getByRole("button", { name: "Alter", exact: true }).click();
  await field.fill("");
  await shows(page, /^ALTER SERVER RESET \(metering_interval\)$/);
  await run(page, "Alter server");
  await expect(interval).toContainText("1 s");
  expect(await site.rowhouse?.sql("SHOW SERVER")).not.toContain("500ms");
});

test("overbooking is switched to half and half and back, and what ran is there to copy", async ({ page, site }) => {
  await visit(page, "#/manage");
  const group = page.getByRole("group", { name: "Overbooking" });
  for (const [name, value] of [
    ["Half and half", "0.5"],
    ["Spread", "spread"],
  ] as const) {
    const choice = group.getByRole("button", { name: new RegExp(`^${name}`) });
    await expect(choice).toHaveAttribute("aria-pressed", "false");
    await choice.click();
    await shows(page, new RegExp(`^ALTER SERVER SET \\(overbooking = '?${value}'?\\)$`));
    await run(page, "Switch overbooking");
    await expect(choice).toHaveAttribute("aria-pressed", "true");
    await expect(page.locator(".facts div", { hasText: "Overbooking" })).toContainText(value);
    const server = (await (await page.request.get(`${site.url}/api/server`)).json()) as { overbooking: string | number };
    expect(String(server.overbooking)).toBe(value);
  }
  const panel = page.getByRole("region", { name: "Run from this page" });
  const newestFirst = await panel.getByRole("listitem").locator("code").allTextContents();
  expect(newestFirst).toHaveLength(2);
  // In the order in which they ran, as a script that can be run again.
  const script = newestFirst.reverse().map((sql) => `${sql};`);
  await panel.getByRole("button", { name: "Copy" }).click();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe(script.join("\n"));
  for (const sql of script) await site.rowhouse?.sql(sql);
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
  await site.rowhouse?.sql(`ALTER TENANT ${site.noisy} SET (cpu_max = ${LIMIT.cores})`);
  await visit(page, "#/manage");
  const told = site.rowhouse === null ? null : await listen(page, site.noisy);
  await page
    .getByRole("group", { name: "Policy" })
    .getByRole("button", { name: /^Best effort/ })
    .click();
  await shows(page, /^ALTER SERVER SET \(policy = '?best_effort'?\)/);
  await run(page, "Switch policy");
  await expect(page.getByRole("group", { name: "Policy" }).getByRole("button", { name: /^Best effort/ })).toHaveAttribute(
    "aria-pressed",
    "true",
  );
  if (site.rowhouse) expect(await site.rowhouse.sql("SHOW SERVER")).toContain("best_effort");
  // Limits are not kept any more.
  if (told) await expect.poll(() => latest(told), { timeout: 60_000 }).toBeGreaterThan(LIMIT.without);
  await visit(page, "#/");
  await expect(page.locator(".tile", { hasText: "Policy" })).toContainText("best effort");
  await visit(page, "#/manage");
  await page
    .getByRole("group", { name: "Policy" })
    .getByRole("button", { name: /^Reservations/ })
    .click();
  const changed_ms = await answered(page, site.url, "Switch policy");
  if (told) expect(await takenSince(told, changed_ms)).toBeLessThan(LIMIT.within);
  await expect(page.getByRole("group", { name: "Policy" }).getByRole("button", { name: /^Reservations/ })).toHaveAttribute(
    "aria-pressed",
    "true",
  );
  await site.rowhouse?.sql(`ALTER TENANT ${site.noisy} RESET (cpu_max)`);
});

test("a change from elsewhere shows here, too", async ({ page, site }) => {
  test.skip(site.rowhouse === null, "by SQL");
  await visit(page, "#/manage");
  await site.rowhouse?.sql("ALTER SERVER SET (overbooking = 'least_penalty')");
  await expect(page.getByRole("region", { name: "Server" })).toContainText("least_penalty");
  await site.rowhouse?.sql("ALTER SERVER RESET (overbooking)");
  await expect(page.getByRole("region", { name: "Server" })).toContainText("spread");
});
