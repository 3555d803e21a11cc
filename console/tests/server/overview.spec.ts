import type { Page } from "@playwright/test";
import { colourOf, layoutShifts, live, signIn, visit } from "../page";
import { expect, test } from "./site";

test.beforeEach(async ({ page, site }) => {
  await signIn(page, site.url);
  await live(page);
});

test("whoever is busy is in the charts, the list and the table", async ({ page, site }) => {
  const who = page.getByRole("region", { name: "Who uses how much" });
  for (const name of [...site.busy, site.noisy]) await expect(who.getByRole("button", { name })).toBeVisible();
  await expect(who.getByRole("button", { name: "system" })).toHaveCount(1);
  for (const title of ["CPU", "Throughput", "Memory", "I/O, default"])
    await expect(page.getByRole("img", { name: new RegExp(`^${title}`) })).toBeVisible();
  // What a screen reader hears of a chart has figures.
  await expect(page.getByRole("img", { name: /^CPU/ })).toHaveAttribute("aria-label", /Now most: .+ \d/);
  const tiles = page.locator(".tile-value");
  await expect(tiles).toHaveCount(7);
  for (const tile of await tiles.all()) await expect(tile).toHaveText(/^\d|^none$|^reservations$/);
  const grid = page.getByRole("grid", { name: "Tenants" });
  await grid.getByRole("button", { name: /Statements/ }).click();
  await expect(grid.getByRole("columnheader", { name: /Statements/ })).toHaveAttribute("aria-sort", "descending");
  await expect(grid.locator('[aria-rowindex="2"] .cell-statements_per_s')).not.toHaveText("0");
  if (site.rowhouse)
    await expect(grid.locator('[aria-rowindex="2"] .tenant-link')).toHaveText(
      new RegExp(`^(${[...site.busy, site.noisy].join("|")})$`),
    );
});

test("a chart is a table, too", async ({ page }) => {
  await page.getByRole("button", { name: "CPU: show as a table" }).click();
  const rows = page.getByRole("group", { name: "CPU, as a table" }).getByRole("row");
  await expect(rows.first()).toContainText("Time");
  await expect(rows.nth(1).getByRole("rowheader")).toHaveText(/^\d\d:\d\d:\d\d$/);
  // It goes on while one reads.
  const first = await rows.nth(1).getByRole("rowheader").textContent();
  await expect(rows.nth(1).getByRole("rowheader")).not.toHaveText(first ?? "");
});

/** Where in the chart of the processor the mouse is put: nine tenths of its width, and this part of its height from below. */
async function inCpuChart(page: Page, part: number): Promise<[x: number, y: number]> {
  const plot = page.locator(".chart", { has: page.getByText("CPU", { exact: true }) }).locator(".u-over");
  const { x, y, width, height } = (await plot.boundingBox()) as { x: number; y: number; width: number; height: number };
  return [x + 0.9 * width, y + (1 - part) * height];
}

test("the charts show as much time as one asks for", async ({ page, site }) => {
  const up_ms = async () => {
    const { now_ms, started_ms } = (await (await page.request.get(`${site.url}/api/server`)).json()) as {
      now_ms: number;
      started_ms: number;
    };
    return now_ms - started_ms;
  };
  await expect.poll(up_ms, { timeout: 120_000 }).toBeGreaterThan(70_000);
  /** How long ago it was, where the mouse is, as the list of who uses how much says. */
  const age_s = async () => {
    await page.mouse.move(...(await inCpuChart(page, 0.5)));
    const [hours = NaN, minutes = NaN, seconds = NaN] = ((await page.locator(".who-time").textContent()) ?? "")
      .split(":")
      .map(Number);
    const day_s = 86_400;
    return (((Date.now() / 1000 - (hours * 3600 + minutes * 60 + seconds)) % day_s) + day_s) % day_s;
  };
  const choice = page.getByLabel("Span of time in the charts");
  // A tenth of a minute, and a tenth of ten.
  await choice.selectOption("60");
  await expect.poll(age_s).toBeLessThan(25);
  await choice.selectOption("600");
  await expect.poll(age_s).toBeGreaterThan(45);
});

test("a click on a chart's band picks out whose it is", async ({ page, site }) => {
  const who = page.getByRole("region", { name: "Who uses how much" });
  const now = page.locator(".chart", { has: page.getByText("CPU", { exact: true }) }).locator(".chart-now");
  // A frame that comes between the look and the click moves the bands.
  await expect(async () => {
    await page.mouse.move(...(await inCpuChart(page, 0.5)));
    await expect(page.locator(".who-time")).not.toHaveText("now", { timeout: 2000 });
    const capacity = Number(/ of ([\d.]+)/.exec((await now.textContent()) ?? "")?.[1]);
    // From top to bottom, as they are stacked.
    const bands = await who.locator("tbody tr").evaluateAll((rows) =>
      rows.map((row) => ({
        name: row.querySelector(".who-name-text")?.textContent,
        cores: Number(row.querySelector("td")?.textContent) || 0,
      })),
    );
    const at = bands.findIndex(({ name }) => name === site.noisy);
    expect(bands[at]?.cores).toBeGreaterThan(0);
    const below = bands.slice(at + 1).reduce((sum, { cores }) => sum + cores, 0);
    await page.mouse.click(...(await inCpuChart(page, (below + (bands[at]?.cores ?? 0) / 2) / capacity)));
    await expect(page.locator(".picked-name")).toHaveText(site.noisy, { timeout: 2000 });
  }).toPass({ timeout: 120_000 });
  await expect(who.getByRole("button", { name: site.noisy })).toHaveAttribute("aria-pressed", "true");
});

test("a tenant that is picked out keeps its colour everywhere, over a reload too", async ({ page, site }) => {
  const name = site.busy[0] as string;
  const pick = page.getByRole("region", { name: "Who uses how much" }).getByRole("button", { name });
  await pick.click();
  await expect(pick).toHaveAttribute("aria-pressed", "true");
  const colour = await colourOf(page, ".picked .swatch");
  expect(await colourOf(page, ".who-table .is-picked .swatch")).toBe(colour);
  await page.getByRole("searchbox", { name: "Search tenants" }).fill(name);
  // Once it is the first, it stays where it is.
  await expect(page.locator('.table-body .row.is-picked[aria-rowindex="2"] .tenant-link')).toHaveText(name);
  expect(await colourOf(page, ".table-body .row.is-picked .swatch")).toBe(colour);
  await page.locator(".table-body .row.is-picked .tenant-link").click();
  await expect(page.getByRole("heading", { level: 1, name })).toBeVisible();
  expect(await colourOf(page, "h1 .swatch")).toBe(colour);
  await page.reload();
  await expect(page.getByRole("heading", { level: 1, name })).toBeVisible();
  expect(await colourOf(page, "h1 .swatch")).toBe(colour);
  await visit(page, `#/ledger?tenant=${name}`);
  const ofRow = `.ledger .swatch[data-tenant="${name}"]`;
  expect(await colourOf(page, ofRow)).toBe(colour);
  await page.emulateMedia({ colorScheme: "dark" });
  await expect.poll(() => colourOf(page, ".picked .swatch")).not.toBe(colour);
  expect(await colourOf(page, ofRow)).toBe(await colourOf(page, ".picked .swatch"));
  await page.emulateMedia({ colorScheme: "light" });
  await expect.poll(() => colourOf(page, ofRow)).toBe(colour);
  await page.getByRole("button", { name: `Stop picking out ${name}` }).click();
  await expect(page.locator(".picked-box")).toHaveClass(/is-empty/);
});

test("nothing moves while figures come in", async ({ page }) => {
  await expect(page.locator(".table-body .tenant-link").first()).not.toBeEmpty();
  expect(await layoutShifts(page, 6)).toEqual([]);
});

test("colours follow the system, or what one chose", async ({ page }) => {
  const theme = () => page.evaluate(() => document.documentElement.dataset["theme"]);
  await page.emulateMedia({ colorScheme: "dark" });
  await expect.poll(theme).toBe("dark");
  await page.getByRole("button", { name: /^Colours: as the system/ }).click();
  await expect.poll(theme).toBe("light");
  await page.reload();
  await expect(page.getByRole("button", { name: /^Colours: light/ })).toBeVisible();
  expect(await theme()).toBe("light");
});

test("the keyboard reaches the page past the navigation, and its focus is seen", async ({ page }) => {
  await page.reload();
  await expect(page.getByRole("navigation", { name: "Pages" })).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to the page" })).toBeFocused();
  expect(await page.evaluate(() => getComputedStyle(document.activeElement as Element).outlineStyle)).toBe("solid");
  await page.keyboard.press("Enter");
  await expect(page.locator("main")).toBeFocused();
});

test("an address that is no page is the overview", async ({ page }) => {
  await visit(page, "#/nowhere");
  await expect(page.getByRole("grid", { name: "Tenants" })).toBeVisible();
});
