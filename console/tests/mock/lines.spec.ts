// The lines of those who have no colour of their own.
import { colourOf, live, screenshot, signIn } from "../page";
import { expect, test } from "./mock";

test("every tenant that runs has a line, and a click on one picks it out", async ({ page, mock }) => {
  await signIn(page, mock.url);
  await live(page);
  await expect(page.getByRole("img", { name: /^Throughput/ })).toHaveAttribute(
    "aria-label",
    /[1-9]\d* more tenants have lines without a name/,
  );
  await screenshot(page, "lines", false);
  const who = page.getByRole("region", { name: "Who uses how much" });
  const named = () => who.locator(".who-name-text").allTextContents();
  const picked = who.locator(".is-picked .who-name-text");
  const plot = page.locator(".chart", { hasText: "Throughput" }).locator(".u-over");
  const { width, height } = (await plot.boundingBox()) as { width: number; height: number };
  let found = "";
  // From the axis upwards, where those are that run little.
  for (let y = height - 2; y > 0 && found === ""; y -= 3) {
    const before = await named();
    await plot.click({ position: { x: width * 0.7, y } });
    const [name] = await picked.allTextContents();
    if (name !== undefined && !before.includes(name)) found = name;
  }
  expect(found).not.toBe("");
  await expect(page.getByRole("button", { name: `Stop picking out ${found}` })).toBeVisible();
  expect(await colourOf(page, ".who-table .is-picked .swatch")).toBe(await colourOf(page, ".picked .swatch"));
});
