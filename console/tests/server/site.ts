/**
 * The server that tests of this folder share: `rowhouse serve`, named by ROWHOUSE, with one worker, under load. Three tenants of order entry (`shop1` to `shop3`), one
 * that takes what it can get (`noisy1`), and one that is idle (`quiet`). Without ROWHOUSE, for working at the tests themselves, the development server stands in.
 */
import { expect, test as base } from "@playwright/test";
import { serve } from "../../mock/server.mjs";
import { watchPage } from "../page";
import { Rowhouse } from "../rowhouse";

export interface Site {
  url: string;
  /** Null with the development server. */
  rowhouse: Rowhouse | null;
  /** Tenants that are busy. */
  busy: string[];
  noisy: string;
  quiet: string;
}

async function real(binary: string): Promise<Site & { close: () => Promise<void> }> {
  const rowhouse = await Rowhouse.start(binary, ["--workers", "1", "--memory", "256MiB"]);
  await rowhouse.sql("CREATE TENANT quiet WITH (size = 'small') OWNER quiet PASSWORD 'pw'");
  await rowhouse.load("tpcc", "shop", 3, ["--rate", "4"], ["--scale", "0.01", "--warehouses", "1"]);
  await rowhouse.load("cpuio", "noisy", 1, ["--clients", "2"], ["--rows", "2000"]);
  for (const name of ["shop1", "shop2", "shop3"])
    await rowhouse.sql(`ALTER TENANT ${name} SET (cpu = 0.1, iops = 50, memory = '8MB', penalty = 0.5)`);
  // Less memory than it uses, so that it has a cache-size curve.
  await rowhouse.sql("ALTER TENANT noisy1 SET (memory = '512kB', memory_max = '512kB')");
  return {
    url: rowhouse.url,
    rowhouse,
    busy: ["shop1", "shop2", "shop3"],
    noisy: "noisy1",
    quiet: "quiet",
    close: () => rowhouse.stop(),
  };
}

async function pretended(): Promise<Site & { close: () => Promise<void> }> {
  const mock = await serve({ tenants: 60 });
  return {
    url: mock.url,
    rowhouse: null,
    busy: ["acme", "borealis", "delta"],
    noisy: "cobalt",
    quiet: "willow_001",
    close: () => mock.close(),
  };
}

/** Takes processor time, nothing else, and has no end. */
const ENDLESS = "select count(*) from generate_series(1, 1000000000000) as i where i % 2 = 0";

/**
 * Promises `noisy` and `quiet` nine tenths of a core each, of the one that there is, and has both want all of it all the time, so that whatever they miss is missed
 * because it was promised twice. Returns once some intervals of that are in the ledger; what it returns ends it.
 */
export async function overbook({ rowhouse, noisy, quiet }: Site): Promise<() => Promise<void>> {
  if (rowhouse === null) throw new Error("the development server keeps no promise");
  const rows = async (sql: string): Promise<number> => Number(await rowhouse.sql(`SELECT count(*) FROM ${sql}`));
  const missed = () => rows(`rowhouse.violations WHERE tenant = '${noisy}' AND resource = 'cpu' AND cause = 'overbooked'`);
  const before = await missed();
  const endless = [noisy, quiet].map((name) => rowhouse.session(`${ENDLESS};`, name));
  const end = async (): Promise<void> => {
    for (const session of endless) session.kill("SIGKILL");
    for (const name of [noisy, quiet]) await rowhouse.sql(`ALTER TENANT ${name} RESET (cpu, penalty)`);
    // Who hangs up is found out a little later.
    await expect.poll(() => rows(`pg_stat_activity WHERE query LIKE '${ENDLESS.replaceAll("%", "_")}%'`)).toBe(0);
  };
  try {
    for (const name of [noisy, quiet]) await rowhouse.sql(`ALTER TENANT ${name} SET (cpu = 0.9, penalty = 2)`);
    await expect.poll(missed, { timeout: 120_000 }).toBeGreaterThan(before + 5);
  } catch (error) {
    await end();
    throw error;
  }
  return end;
}

export const test = base.extend<{ faults: string[] }, { site: Site }>({
  site: [
    async ({}, use) => {
      const binary = process.env["ROWHOUSE"];
      const site = binary ? await real(binary) : await pretended();
      await use(site);
      await site.close();
    },
    { scope: "worker", timeout: 900_000 },
  ],
  faults: [
    async ({ page, site }, use) => {
      const faults = watchPage(page, site.url);
      await use(faults);
      expect(faults).toEqual([]);
    },
    { auto: true },
  ],
});
export { expect };
