// Stories and client groups, which only `rowhouse demo` has.
import { readFile } from "node:fs/promises";
import { accessibility, NARROW, overflow, screenshot, signIn, visit } from "../page";
import { expect, test } from "./mock";

test("a story is started, made faster and stopped", async ({ page, mock }) => {
  await signIn(page, mock.url);
  await visit(page, "#/scenarios");
  await page.getByRole("button", { name: "Start A noisy neighbour under three policies" }).click();
  await expect(page.locator(".story-progress")).toContainText("A noisy neighbour under three policies: One of them doubles its clients (step 2 of 3");
  await page.getByRole("combobox", { name: "Speed" }).selectOption({ label: "5 ×" });
  await expect.poll(() => mock.world.demo().running.speed).toBe(5);
  await screenshot(page, "scenarios-running");
  expect(await accessibility(page)).toEqual([]);
  await page.getByRole("button", { name: "Stop A noisy neighbour under three policies" }).click();
  await expect.poll(() => mock.world.demo().running).toBeNull();
  await expect(page.getByRole("button", { name: "Start A noisy neighbour under three policies" })).toBeVisible();
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
  await dialog.getByLabel("Shape over time").selectOption("burst");
  await dialog.locator("[name=high]").fill("8");
  await screenshot(page, "scenarios-group", false);
  expect(await accessibility(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Add group" }).click();
  await expect(groups.getByText("burst of reports")).toBeVisible();
  await groups.getByRole("button", { name: "Change group burst of reports" }).click();
  await page.getByRole("dialog").getByLabel("Clients for each").fill("7");
  await page.getByRole("dialog").getByRole("button", { name: "Change group" }).click();
  await expect.poll(() => mock.world.demo().groups.at(-1).clients).toBe(7);
  const download = page.waitForEvent("download");
  await groups.getByRole("link", { name: "Save" }).click();
  const path = await (await download).path();
  expect(JSON.parse(await readFile(path, "utf8")).groups).toHaveLength(3);
  await groups.getByRole("button", { name: "Remove group burst of reports" }).click();
  await expect(groups.getByText("burst of reports")).toHaveCount(0);
  await page.locator("#groups-file").setInputFiles(path);
  await expect(groups.getByText("burst of reports")).toBeVisible();
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
