// A telephone's width: what one does at a desk is done there, too.
import { live, NARROW, overflow, signIn } from "../page";
import { expect, test } from "./site";

test.use({ viewport: NARROW });

test("one signs in, finds a tenant and begins to change it in a narrow window", async ({ page, site }) => {
  await signIn(page, site.url);
  await live(page);
  const pages = page.getByRole("navigation", { name: "Pages" });
  for (const [name, shown] of [
    ["Manage", page.getByRole("region", { name: "Sizes" })],
    ["Ledger", page.getByRole("search", { name: "Filter of the ledger" })],
    ["Overview", page.getByRole("grid", { name: "Tenants" })],
  ] as const) {
    const link = pages.getByRole("link", { name });
    await expect(link).toBeInViewport();
    await link.click();
    await expect(link).toHaveAttribute("aria-current", "page");
    await expect(shown).toBeVisible();
    await expect.poll(() => overflow(page), name).toBe(0);
  }
  await page.getByRole("searchbox", { name: "Search tenants" }).fill(site.noisy);
  const found = page.getByRole("grid", { name: "Tenants" }).locator('[aria-rowindex="2"] .tenant-link');
  await expect(found).toHaveText(site.noisy);
  await found.click();
  await expect(page.getByRole("heading", { level: 1, name: site.noisy })).toBeVisible();
  await expect.poll(() => overflow(page)).toBe(0);
  await page.getByRole("button", { name: "Alter", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: `Alter ${site.noisy}` });
  await dialog.locator("[name=cpu]").fill("0.02");
  await expect(dialog.getByLabel("The statement")).toHaveText(/SET \(cpu = .*0\.02.*\)$/);
  // All of it is within the window, and what runs the change can be reached.
  const box = await dialog.boundingBox();
  expect(box?.x).toBeGreaterThanOrEqual(0);
  expect((box?.x ?? 0) + (box?.width ?? Infinity)).toBeLessThanOrEqual(NARROW.width);
  expect((box?.y ?? 0) + (box?.height ?? Infinity)).toBeLessThanOrEqual(NARROW.height);
  await expect(dialog.getByRole("button", { name: "Alter tenant" })).toBeInViewport();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await expect(dialog).toHaveCount(0);
  await expect(page.getByRole("heading", { level: 1, name: site.noisy })).toBeVisible();
});
