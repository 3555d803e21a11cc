// The pictures in the README, of a real server at work: `ROWHOUSE=… npm run pictures`, a release build on a machine that does nothing else.
import { fileURLToPath } from "node:url";
import { expect, test } from "@playwright/test";
import { live, signIn, visit, WIDE } from "../page";
import { Rowhouse } from "../rowhouse";

const BINARY = process.env["ROWHOUSE"] ?? "";
const picture = (name: string) => fileURLToPath(new URL(`../../../docs/images/${name}.png`, import.meta.url));
/** Of the noisy neighbour's story: best effort has been in force for so long that it is seen. */
const SHOWN_S = 92;

test("the overview, and a noisy neighbour under the second policy", async ({ page }) => {
  test.skip(BINARY === "", "names the server's binary");
  test.setTimeout(600_000);
  const demo = await Rowhouse.demo(BINARY, ["--story", "noisy"]);
  try {
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    await page.setViewportSize(WIDE);
    await signIn(page, demo.url, "admin", demo.password);
    await live(page);
    await page.getByRole("combobox", { name: /^Span of time/ }).selectOption({ index: 0 });
    await visit(page, "#/scenarios");
    const at_s = async () =>
      ((await (await page.request.get(`${demo.url}/api/demo`)).json()) as { running: { at_s: number } }).running.at_s;
    await expect.poll(at_s, { timeout: 540_000, intervals: [250] }).toBeGreaterThanOrEqual(SHOWN_S);
    await expect(page.getByRole("group", { name: "Policy" }).getByRole("button", { name: /^Best effort/ })).toHaveAttribute(
      "aria-pressed",
      "true",
    );
    const end = await page.getByRole("region", { name: "Client groups" }).first().boundingBox();
    await page.screenshot({
      path: picture("noisy-neighbour"),
      fullPage: true,
      clip: { x: 0, y: 0, width: WIDE.width, height: Math.ceil((end?.y ?? 0) + (end?.height ?? 0) + 12) },
    });
    await visit(page, "#/");
    await expect(page.getByRole("grid", { name: "Tenants" }).locator(".tenant-link").first()).not.toBeEmpty();
    await page.screenshot({ path: picture("overview") });
  } finally {
    await demo.stop();
  }
});
