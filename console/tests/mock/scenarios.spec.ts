// Stories and client groups, which only `rowhouse demo` has.
import { readFile } from "node:fs/promises";
import { accessibility, NARROW, overflow, screenshot, signIn, visit } from "../page";
import { expect, test } from "./mock";

const STORY = "A noisy neighbour under three policies";

test("a story is started, made faster, paused and stopped, and tells what is now", async ({ page, mock }) => {
  await signIn(page, mock.url);
  await visit(page, "#/scenarios");
  await page.getByRole("button", { name: `Start ${STORY}` }).click();
  const running = page.getByRole("region", { name: "The story that runs" });
  await expect(running.getByRole("heading", { name: STORY })).toBeVisible();
  await expect(running.locator(".running-now")).toHaveText("Fifty tenants at their usual rate");
  // The keyboard goes on where the story is steered.
  await expect(running.getByRole("button", { name: "Pause" })).toBeFocused();
  await running.getByRole("combobox", { name: "Speed" }).selectOption({ label: "5 ×" });
  await expect.poll(() => mock.world.demo().running.speed).toBe(5);
  await running.getByRole("button", { name: "Pause" }).click();
  await expect(running.getByRole("button", { name: "Resume" })).toBeVisible();
  expect(mock.world.demo().running.paused).toBe(true);
  mock.world.stories.skip(60);
  await expect(running.locator(".running-now")).toHaveText("One of them doubles its clients");
  await expect(running.locator(".story-steps [aria-current=step]")).toContainText("One of them doubles its clients");
  await expect(running.locator(".running-time")).toHaveText(/^1:\d\d of 2:00 · paused$/);
  expect(Number(await running.getByRole("progressbar").getAttribute("value"))).toBeGreaterThanOrEqual(0.5);
  await screenshot(page, "scenarios-running");
  expect(await accessibility(page)).toEqual([]);
  await running.getByRole("button", { name: "Resume" }).click();
  await expect(running.getByRole("button", { name: "Pause" })).toBeVisible();
  await running.getByRole("button", { name: "Stop" }).click();
  await expect.poll(() => mock.world.demo().running).toBeNull();
  await expect(running).toBeHidden();
  await expect(page.getByRole("button", { name: `Start ${STORY}` })).toBeVisible();
});

test("client groups are added, changed, removed, saved and loaded", async ({ page, mock }) => {
  await signIn(page, mock.url);
  await visit(page, "#/scenarios");
  const groups = page.getByRole("region", { name: "Client groups" }).first();
  await groups.getByRole("button", { name: "Add a group" }).click();
  const dialog = page.getByRole("dialog", { name: "Add a client group" });
  await dialog.getByLabel("Name", { exact: true }).fill("burst of reports");
  await dialog.getByLabel("Tenants named").fill("reports");
  await dialog.getByLabel("How many tenants").fill("4");
  // Each workload has options of its own.
  await expect(dialog.getByLabel("warehouses")).toHaveAccessibleDescription("1 if not said");
  await dialog.getByLabel("Workload").selectOption("pgbench");
  await expect(dialog.getByLabel("warehouses")).toHaveCount(0);
  await dialog.getByLabel("script").selectOption("select-only");
  await dialog.locator("[name=cpu]").fill("0.25");
  await dialog.locator("[name=memory]").fill("64MB");
  await expect(dialog.locator("[name=high]")).toBeDisabled();
  await dialog.getByLabel("Shape over time").selectOption("burst");
  await dialog.locator("[name=high]").fill("8");
  await screenshot(page, "scenarios-group", false);
  expect(await accessibility(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Add group" }).click();
  await expect(groups.getByText("burst of reports")).toBeVisible();
  await expect(groups.getByRole("row", { name: /burst of reports/ })).toContainText("cpu 0.25, memory 64MB");
  expect(mock.world.demo().groups.at(-1)).toMatchObject({
    options: { script: "select-only" },
    promises: { cpu: 0.25, memory: "64MB" },
    shape: { kind: "burst", high: 8 },
  });
  await groups.getByRole("button", { name: "Change group burst of reports" }).click();
  await page.getByRole("dialog").getByLabel("Clients for each").fill("7");
  await page.getByRole("dialog").locator("[name=memory]").fill("");
  await page.getByRole("dialog").getByRole("button", { name: "Change group" }).click();
  await expect.poll(() => mock.world.demo().groups.at(-1).clients).toBe(7);
  expect(mock.world.demo().groups.at(-1)).toMatchObject({ options: { script: "select-only" }, promises: { cpu: 0.25 } });
  const download = page.waitForEvent("download");
  await groups.getByRole("link", { name: "Save" }).click();
  const path = await (await download).path();
  const saved = JSON.parse(await readFile(path, "utf8"));
  expect(saved.groups).toHaveLength(3);
  await groups.getByRole("button", { name: "Remove group burst of reports" }).click();
  await expect(groups.getByText("burst of reports")).toHaveCount(0);
  await groups.locator("#groups-file").setInputFiles(path);
  await expect(groups.getByText("burst of reports")).toBeVisible();
  // What is refused says which group is wrong, for as long as it takes to mend it.
  saved.groups[1].tenants = 0;
  const file = (text: string) => ({ name: "mine.json", mimeType: "application/json", buffer: Buffer.from(text) });
  await groups.locator("#groups-file").setInputFiles(file(JSON.stringify(saved)));
  await expect(groups.getByRole("alert")).toContainText('the group "reports": a group has 1 to 1000 tenants, not 0');
  await expect(groups).toContainText("mine.json was refused, and nothing was changed.");
  await screenshot(page, "scenarios-refused");
  await groups.locator("#groups-file").setInputFiles(file("{"));
  await expect(groups.getByRole("alert")).toContainText("It is not JSON");
  saved.groups[1].tenants = 2;
  await groups.locator("#groups-file").setInputFiles(file(JSON.stringify(saved)));
  await expect(groups.getByRole("alert")).toHaveCount(0);
  await expect(groups.getByRole("row", { name: /reports/ }).first()).toBeVisible();
});

test("the page of scenarios fits a narrow window, and is not there without the demo", async ({ page, mock }) => {
  await page.setViewportSize(NARROW);
  await signIn(page, mock.url);
  await visit(page, "#/scenarios");
  await expect(page.getByRole("button", { name: /^Start / })).toHaveCount(5);
  expect(await overflow(page)).toBe(0);
  await screenshot(page, "scenarios-390");
  await page.route("**/api/server", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ json: { ...(await answer.json()), demo: false } });
  });
  await page.reload();
  await expect(page.getByRole("link", { name: "Manage" })).toBeVisible();
  await expect(page.getByRole("link", { name: "Scenarios" })).toBeHidden();
});
