// What others name and write is shown, and is nothing else.
import { live, signIn, visit } from "../page";
import { expect, test } from "./site";

const IMAGE = "<img src=x onerror=document.title=1>";
const NAMES = [
  IMAGE,
  "=1+1",
  "a,b",
  ".",
  "..",
  "...",
  "a/b",
  "a%2Fb",
  "../../api/logout",
  " x ",
  "q?x=1#y",
  `back\\slash'single"double`,
];
const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

test("names and texts are shown as they are, whatever is in them", async ({ page, site }) => {
  test.skip(site.rowhouse === null, "names that the server has");
  const dialogs: string[] = [];
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  for (const name of NAMES) await site.rowhouse?.sql(`CREATE TENANT ${quoted(name)}`);
  const session = site.rowhouse?.session(
    `SELECT pg_sleep(600), '<script>alert(1)</script>' /* ${IMAGE} */;`,
    `${encodeURIComponent(IMAGE)}?application_name=${encodeURIComponent(IMAGE)}`,
  );
  await signIn(page, site.url);
  await live(page);
  for (const name of NAMES) {
    await visit(page, `#/tenant/${encodeURIComponent(name)}`);
    await expect.poll(() => page.locator("main h1").textContent()).toBe(name);
    await page.getByRole("button", { name: "Alter" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.locator("input[name=penalty]").evaluate((input: HTMLInputElement) => {
      input.value = "2";
      input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await expect
      .poll(() => dialog.getByLabel("The statement").textContent())
      .toBe(`ALTER TENANT ${quoted(name)} SET (penalty = 2)`);
    await dialog.getByRole("button", { name: "Cancel" }).click();
  }
  await visit(page, `#/tenant/${encodeURIComponent(IMAGE)}`);
  const row = page.getByRole("group", { name: "Sessions" }).locator("tbody tr");
  await expect(row).toContainText(`pg_sleep(600), '<script>alert(1)</script>' /* ${IMAGE} */`);
  await expect(row).toContainText(`${IMAGE} · 127.0.0.1`);
  await visit(page, `#/statement/${encodeURIComponent(IMAGE)}/2026-11`);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(`Statement of promises: ${IMAGE}`);
  await visit(page, "#/");
  await page.getByRole("searchbox", { name: "Search tenants" }).fill("<img");
  await expect(page.locator('.table-body .row[aria-rowindex="2"] .tenant-link')).toHaveText(IMAGE);
  await expect(page).toHaveTitle("Overview · Rowhouse");
  expect(await page.locator("img[src=x]").count()).toBe(0);
  expect(dialogs).toEqual([]);
  session?.kill("SIGKILL");
  // Who hangs up is found out a little later; until then the tenant is in use.
  const dropped = (name: string) =>
    site.rowhouse?.sql(`DROP TENANT ${quoted(name)}`).then(
      () => true,
      () => false,
    );
  for (const name of NAMES) await expect.poll(() => dropped(name)).toBe(true);
});
