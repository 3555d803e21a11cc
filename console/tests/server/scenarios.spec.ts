// Stories and client groups of a real `rowhouse demo`: what the page asks for happens on the server, and what happens there is on the page.
import { readFile } from "node:fs/promises";
import { expect, test as base, type Page } from "@playwright/test";
import { live, looks, signIn, visit, watchPage } from "../page";
import { Rowhouse } from "../rowhouse";

const STORY = "A noisy neighbour under three policies";
const BINARY = process.env["ROWHOUSE"] ?? "";
/** What loads and begins takes its time on a busy machine. */
const LOADING = { timeout: 200_000 };

const test = base.extend<{ faults: string[] }, { demo: Rowhouse }>({
  demo: [
    async ({}, use) => {
      test.skip(BINARY === "", "of rowhouse demo");
      const demo = await Rowhouse.demo(BINARY, ["--workers", "1", "--story", "none"]);
      await use(demo);
      await demo.stop();
    },
    { scope: "worker", timeout: 300_000 },
  ],
  faults: [
    async ({ page, demo }, use) => {
      const faults = watchPage(page, demo.url);
      await use(faults);
      expect(faults).toEqual([]);
    },
    { auto: true },
  ],
});

async function open(page: Page, demo: Rowhouse): Promise<void> {
  await signIn(page, demo.url, "admin", demo.password);
  await live(page);
  await visit(page, "#/scenarios");
}

const asked = async <T>(page: Page, demo: Rowhouse, path: string): Promise<T> =>
  (await (await page.request.get(demo.url + path)).json()) as T;
const policyOf = async (page: Page, demo: Rowhouse): Promise<string> =>
  (await asked<{ policy: string }>(page, demo, "/api/server")).policy;

test("a story runs, switches the policy for all to see, is steered, and leaves nothing", async ({ page, demo }) => {
  await open(page, demo);
  const { stories } = await asked<{ stories: { title: string }[] }>(page, demo, "/api/demo");
  for (const { title } of stories) await expect(page.getByRole("button", { name: `Start ${title}` })).toBeVisible();
  await page.getByRole("button", { name: `Start ${STORY}` }).click();
  const running = page.getByRole("region", { name: "The story that runs" });
  await expect(running.getByRole("heading", { name: STORY })).toBeVisible();
  const groups = page.getByRole("region", { name: "Client groups" }).first();
  const quiet = groups.getByRole("row", { name: /the quiet ones/ });
  await expect(quiet).toContainText("running", LOADING);
  // They work, and are in the charts by name.
  await expect(quiet.getByRole("cell", { name: /^[1-9][\d.,]*(\/s| k\/s)$/ }).first()).toBeVisible(LOADING);
  await expect(
    page
      .getByRole("region", { name: "Who uses how much" })
      .getByRole("button", { name: /^quiet\d+$/ })
      .first(),
  ).toBeVisible(LOADING);
  await running.getByRole("combobox", { name: "Speed" }).selectOption({ label: "10 ×" });
  await expect(groups.getByRole("row", { name: /the noisy ones/ })).toContainText("running", LOADING);
  // The story's own statement presses the switch, and the step that it is of is told.
  const policy = page.getByRole("group", { name: "Policy" });
  await expect(policy.getByRole("button", { name: /^Best effort/ })).toHaveAttribute("aria-pressed", "true", LOADING);
  await running.getByRole("button", { name: "Pause" }).click();
  await expect(running.locator(".running-time")).toContainText("paused");
  const { running: told } = await asked<{ running: { at_s: number; length_s: number; step: number; steps: { text: string }[] } }>(
    page,
    demo,
    "/api/demo",
  );
  await expect(running.locator(".running-now")).toHaveText(told.steps[told.step]?.text ?? "");
  await expect(running.getByRole("progressbar")).toHaveJSProperty("value", told.at_s / told.length_s);

  // One's own hand, while it stands still: the policy as the page's, the story's as SQL's.
  await policy.getByRole("button", { name: /^Max only/ }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByLabel("The statement")).toHaveText(/^ALTER SERVER SET \(policy = '?max_only'?\)/);
  await dialog.getByRole("button", { name: "Switch policy" }).click();
  await expect(policy.getByRole("button", { name: /^Max only/ })).toHaveAttribute("aria-pressed", "true");
  expect(await policyOf(page, demo)).toBe("max_only");
  const overbooking = page.getByRole("group", { name: "Overbooking" });
  await overbooking.getByRole("button", { name: /^Least penalty/ }).click();
  await dialog.getByRole("button", { name: "Switch overbooking" }).click();
  await expect(overbooking.getByRole("button", { name: /^Least penalty/ })).toHaveAttribute("aria-pressed", "true");
  await demo.sql("ALTER SERVER SET (overbooking = 0.5)");
  await expect(overbooking.getByRole("button", { name: /^Half and half/ })).toHaveAttribute("aria-pressed", "true");
  await demo.sql("ALTER SERVER RESET (overbooking)");
  await expect(overbooking.getByRole("button", { name: /^Spread/ })).toHaveAttribute("aria-pressed", "true");
  expect((await asked<{ running: { at_s: number } }>(page, demo, "/api/demo")).running.at_s).toBe(told.at_s);
  await looks(page, "scenarios");

  await running.getByRole("button", { name: "Resume" }).click();
  await expect(running.getByRole("button", { name: "Pause" })).toBeVisible();
  await expect(policy.getByRole("button", { name: /^Reservations/ })).toHaveAttribute("aria-pressed", "true", LOADING);
  await running.getByRole("button", { name: "Stop" }).click();
  await expect(running).toBeHidden();
  await expect(groups.getByText("No clients.")).toBeVisible();
  await expect.poll(() => policyOf(page, demo), LOADING).toBe("reservations");
  for (const search of ["quiet", "noisy"])
    await expect
      .poll(async () => (await asked<{ matched: number }>(page, demo, `/api/tenants?search=${search}`)).matched, LOADING)
      .toBe(0);
});

interface Told {
  stories: { id: string; title: string }[];
  running: { story: string; is_loading: boolean; steps: { text: string }[] } | null;
  groups: { name: string; state: string }[];
}

test("every story begins with what it tells first, and leaves nothing", async ({ page, demo }) => {
  // What is being loaded as a story is stopped is loaded to its end, and dropped then.
  test.slow();
  await open(page, demo);
  const told = () => asked<Told>(page, demo, "/api/demo");
  const { stories } = await told();
  expect(stories.length).toBeGreaterThan(1);
  const running = page.getByRole("region", { name: "The story that runs" });
  const groups = page.getByRole("region", { name: "Client groups" }).first();
  for (const { id, title } of stories)
    await test.step(title, async () => {
      await page.getByRole("button", { name: `Start ${title}`, exact: true }).click();
      await expect(running.getByRole("heading", { name: title, exact: true })).toBeVisible();
      // Its tenants take their time: that they are being made is enough here, the story above is one whose tenants work.
      await expect.poll(async () => (await told()).groups.length).toBeGreaterThan(0);
      const now = await told();
      expect(now.running?.story).toBe(id);
      await expect(running.locator(".running-now")).toHaveText(now.running?.steps[0]?.text ?? "");
      await expect(running.locator(".story-steps li").first()).toHaveAttribute("aria-current", "step");
      await expect(running.locator(".story-steps li")).toHaveCount(now.running?.steps.length ?? 0);
      const rows = groups.locator("tbody tr");
      await expect(rows).toHaveCount(now.groups.length);
      for (const { name } of now.groups) {
        const row = rows.filter({ has: page.getByText(name, { exact: true }) });
        await expect(row.locator(".state")).toHaveText(/^(loading|running|stopped)$/);
      }
      await running.getByRole("button", { name: "Stop" }).click();
      await expect(running).toBeHidden();
      await expect(groups.getByText("No clients.")).toBeVisible();
      expect(await told()).toMatchObject({ running: null, groups: [] });
    });
  // What they set of the server is taken back, and of their tenants only what further ones are copied from stays.
  await expect.poll(() => policyOf(page, demo), LOADING).toBe("reservations");
  await expect
    .poll(async () => (await asked<{ overbooking: string }>(page, demo, "/api/server")).overbooking, LOADING)
    .toBe("spread");
  const tenants = async () => (await asked<{ rows: { name: string }[] }>(page, demo, "/api/tenants?limit=500")).rows;
  await expect
    .poll(async () => (await tenants()).map(({ name }) => name).filter((name) => !/^(model_|system$)/.test(name)), LOADING)
    .toEqual([]);
});

test("client groups are added, changed, saved, removed and loaded while they work", async ({ page, demo }) => {
  await open(page, demo);
  const groups = page.getByRole("region", { name: "Client groups" }).first();
  await groups.getByRole("button", { name: "Add a group" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("mine");
  await dialog.getByLabel("Tenants named").fill("mine");
  await dialog.getByLabel("Workload").selectOption("cpuio");
  await dialog.getByLabel("rows", { exact: true }).fill("500");
  await dialog.getByLabel("Rate for each").fill("20");
  await dialog.locator("[name=cpu]").last().fill("0.05");
  await dialog.getByLabel("Shape over time").selectOption("wave");
  await dialog.getByRole("button", { name: "Add group" }).click();
  const mine = groups.getByRole("row", { name: /mine/ });
  await expect(mine).toContainText("running", LOADING);
  await expect(mine).toContainText("wave, 0 to 1 ×");
  const promised = async () => (await asked<{ cpu_promised: number }>(page, demo, "/api/tenants/mine1")).cpu_promised;
  expect(await promised()).toBe(0.05);

  await groups.getByRole("button", { name: "Change group mine" }).click();
  await dialog.getByLabel("How many tenants").fill("2");
  await dialog.getByLabel("Clients for each").fill("3");
  await dialog.locator("[name=cpu]").last().fill("0.06");
  await dialog.getByRole("button", { name: "Change group" }).click();
  await expect.poll(promised, LOADING).toBe(0.06);
  await expect
    .poll(async () => (await asked<{ matched: number }>(page, demo, "/api/tenants?search=mine")).matched, LOADING)
    .toBe(2);
  // What the server refuses is said where one can mend it.
  await groups.getByRole("button", { name: "Change group mine" }).click();
  await dialog.getByLabel("Tenants named").fill("Mine 1");
  await dialog.getByRole("button", { name: "Change group" }).click();
  await expect(dialog.getByRole("alert")).toContainText("is no prefix of tenants");
  await dialog.getByRole("button", { name: "Cancel" }).click();

  const download = page.waitForEvent("download");
  await groups.getByRole("link", { name: "Save" }).click();
  const saved = JSON.parse(await readFile(await (await download).path(), "utf8")) as { groups: Record<string, unknown>[] };
  expect(saved.groups).toMatchObject([
    { name: "mine", tenants: 2, clients: 3, rate: 20, options: { rows: 500 }, promises: { cpu: 0.06 }, shape: { kind: "wave" } },
  ]);
  await groups.getByRole("button", { name: "Remove group mine" }).click();
  await expect(groups.getByText("No clients.")).toBeVisible();
  await expect
    .poll(async () => (await asked<{ matched: number }>(page, demo, "/api/tenants?search=mine")).matched, LOADING)
    .toBe(0);

  const load = (content: unknown) =>
    groups
      .locator("#groups-file")
      .setInputFiles({ name: "mine.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(content)) });
  const [group] = saved.groups;
  await load({ ...saved, groups: [group, { ...group, name: "second", tenant_prefix: "second", options: { rows: 1 } }] });
  await expect(groups.getByRole("alert")).toContainText('the group "second"');
  await expect(groups.getByText("No clients.")).toBeVisible();
  await load(saved);
  await expect(groups.getByRole("row", { name: /mine/ })).toContainText("running", LOADING);
  await expect(groups.getByRole("alert")).toHaveCount(0);
  await groups.getByRole("button", { name: "Remove group mine" }).click();
  await expect(groups.getByText("No clients.")).toBeVisible();
});

test("a viewer watches the scenarios and steers nothing", async ({ page, demo }) => {
  await demo.sql("CREATE ROLE watcher LOGIN PASSWORD 'secret'");
  await signIn(page, demo.url, "watcher");
  await visit(page, "#/scenarios");
  const { stories } = await asked<Told>(page, demo, "/api/demo");
  await expect(page.locator(".story")).toHaveCount(stories.length);
  await expect(page.getByRole("button", { name: /^Start / })).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Add a group" })).toHaveCount(0);
  await expect(page.locator("#groups-file")).toHaveCount(0);
  await expect(page.getByRole("link", { name: "Save" })).toBeVisible();
  // Past the page, with all that a request needs but the right.
  const { csrf } = await asked<{ csrf: string }>(page, demo, "/api/session");
  const refused = await page.request.post(`${demo.url}/api/demo/start`, {
    data: { story: stories[0]?.id },
    headers: { "x-csrf-token": csrf },
  });
  expect(refused.status()).toBe(403);
  expect(await refused.json()).toMatchObject({
    error: { code: "42501", message: '"watcher" sees everything and changes nothing' },
  });
  expect((await asked<Told>(page, demo, "/api/demo")).running).toBeNull();
});
