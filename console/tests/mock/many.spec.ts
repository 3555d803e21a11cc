// More sessions and locks than a document can have: a tenant may have 10,000 of the ones and 16,384 of the others.
import { signIn } from "../page";
import { expect, test } from "./mock";

test("of thousands of sessions and locks those that matter are shown", async ({ page, mock }) => {
  const answer = (part: string, rows: (i: number) => object) =>
    page.route(`**/api/tenants/*/${part}`, (route) =>
      route.fulfill({ json: { rows: Array.from({ length: 5000 }, (_, i) => rows(i)) } }),
    );
  await answer("sessions", (i) => ({
    pid: i,
    user: "shop",
    application_name: "shop",
    client: "10.0.4.1:5000",
    state: i === 4999 ? "active" : "idle",
    wait_event: null,
    query: "SELECT 1",
    query_start_ms: 1,
    transaction_start_ms: null,
  }));
  await answer("locks", (i) => ({
    pid: i,
    relation: "row of stock",
    mode: "RowExclusiveLock",
    granted: i !== 4998,
    blocked_by: i === 4998 ? [7] : [],
  }));
  await signIn(page, mock.url);
  await page.getByRole("grid", { name: "Tenants" }).locator(".tenant-link").first().click();
  for (const [name, matters] of [
    ["Sessions and what they run", "4999"],
    ["Locks", "4998"],
  ] as const) {
    const panel = page.getByRole("region", { name, exact: true });
    await expect(panel.locator("tbody tr")).toHaveCount(500);
    await expect(panel.locator("tbody tr").first()).toContainText(matters);
    await expect(panel).toContainText("The first 500 of 5,000.");
  }
});
