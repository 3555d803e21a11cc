// Every page in both themes and both widths. The scenarios' are in their own file.
import type { Page } from "@playwright/test";
import { live, looks, signIn, visit } from "../page";
import { expect, test } from "./site";

/** Until charts have something in them: the last tick of the longest one's axis is drawn from frames. */
async function settled(page: Page): Promise<void> {
  await expect(page.getByText("Loading", { exact: true })).toHaveCount(0);
  for (const chart of await page.getByRole("img", { name: /^(CPU|Throughput)/ }).all())
    await expect(chart).toHaveAttribute("aria-label", /\d/);
}

test("every page looks as it should, wide and narrow, light and dark", async ({ page, site }) => {
  await page.goto(site.url);
  await expect(page.getByRole("button", { name: "Sign in" })).toBeVisible();
  await looks(page, "login");
  await signIn(page, site.url);
  await live(page);
  const month = new Date().toISOString().slice(0, 7);
  const pages = {
    overview: "#/",
    tenant: `#/tenant/${site.noisy}`,
    manage: "#/manage",
    ledger: "#/ledger",
    statement: `#/statement/${site.busy[0]}/${month}`,
  };
  for (const [name, hash] of Object.entries(pages)) {
    await visit(page, hash);
    await settled(page);
    await looks(page, name);
  }
});
