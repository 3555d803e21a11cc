// The dashboard asks for what the server tells.
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "./site";

test("each series of the Grafana dashboard is in /metrics", async ({ request, site }) => {
  test.skip(site.rowhouse === null, "the server's own series");
  const dashboard = await readFile(fileURLToPath(new URL("../../../deploy/grafana/rowhouse.json", import.meta.url)), "utf8");
  const names = new Set(dashboard.match(/rowhouse_[a-z_]+/g));
  expect(names.size).toBeGreaterThan(10);
  // Of what comes with the first broken promise only, the source has to do.
  const source = await readFile(fileURLToPath(new URL("../../../crates/server/src/admin/metrics.rs", import.meta.url)), "utf8");
  const metrics = await (await request.get(`${site.url}/metrics`)).text();
  const told = new Set([...metrics.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
  for (const name of names)
    expect(
      told.has(name) ||
        source.includes(`"${name}"`) ||
        source.includes(`${name}{`) ||
        told.has(name.replace(/_(bucket|count|sum)$/, "")),
      name,
    ).toBe(true);
});
