// Every page in both themes and both widths: accessible, not wider than the window, and kept as a picture.
import { accessibility, live, NARROW, overflow, screenshot, signIn, visit, WIDE } from "../page";
import { expect, test } from "./site";

for (const scheme of ["light", "dark"] as const) {
  for (const [width, viewport] of [[1280, WIDE], [390, NARROW]] as const) {
    test(`${scheme}, ${width} pixels wide`, async ({ page, site }) => {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      await page.setViewportSize(viewport);
      await page.goto(site.url);
      await expect(page.getByRole("button", { name: "Sign in" })).toBeVisible();
      await screenshot(page, `login-${scheme}-${width}`);
      expect(await accessibility(page), "login").toEqual([]);
      await signIn(page, site.url);
      await live(page);
      const month = new Date().toISOString().slice(0, 7);
      const pages = { overview: "#/", tenant: `#/tenant/${site.busy[0]}`, manage: "#/manage", ledger: "#/ledger", statement: `#/statement/${site.busy[0]}/${month}` };
      for (const [name, hash] of Object.entries(pages)) {
        await visit(page, hash);
        await expect(page.getByText("Loading", { exact: true })).toHaveCount(0);
        // Two frames of the stream, so that charts have something in them.
        await page.waitForTimeout(2500);
        await screenshot(page, `${name}-${scheme}-${width}`);
        expect.soft(await accessibility(page), name).toEqual([]);
        expect.soft(await overflow(page), name).toBe(0);
      }
    });
  }
}
