// A tenant that moves between workers, for which there have to be two.
import { expect, test } from "@playwright/test";
import { signIn, visit } from "../page";
import { Rowhouse } from "../rowhouse";

test("a tenant moves to the worker that one names, and its sessions with it", async ({ page }) => {
  const binary = process.env["ROWHOUSE"] ?? "";
  test.skip(binary === "", "of a server with two workers");
  const rowhouse = await Rowhouse.start(binary, ["--workers", "2"]);
  try {
    await rowhouse.sql("CREATE TENANT orchid");
    const session = rowhouse.session("select pg_sleep(5000);", "orchid");
    await signIn(page, rowhouse.url);
    await visit(page, "#/tenant/orchid");
    const home = page.locator(".facts div", { hasText: "Home" });
    await expect(page.getByRole("row", { name: /pg_sleep/ })).toContainText("active");
    const to = (await home.textContent())?.includes("worker 0") ? 1 : 0;
    await page.getByRole("button", { name: "Move", exact: true }).click();
    await page.getByRole("dialog").getByLabel("New home").selectOption(String(to));
    await expect(page.getByRole("dialog").getByLabel("The statement")).toHaveText(
      new RegExp(`^ALTER TENANT .*orchid.* SET WORKER ${to}`),
    );
    await page.getByRole("dialog").getByRole("button", { name: "Move tenant" }).click();
    await expect(home).toContainText(`worker ${to}`);
    await expect(page.getByRole("row", { name: /pg_sleep/ })).toContainText("active");
    expect(session.exitCode).toBeNull();
  } finally {
    await rowhouse.stop();
  }
});
