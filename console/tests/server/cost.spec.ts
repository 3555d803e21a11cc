// What it costs the server that somebody looks.
import { expect, test } from "@playwright/test";
import { live, signIn } from "../page";
import { Rowhouse } from "../rowhouse";

const SECONDS = 20;
const TENANTS = 100;

test("an open console costs the server at most a hundredth of a core", async ({ page }) => {
  const binary = process.env["ROWHOUSE"] ?? "";
  test.skip(!binary.includes("release"), "of a build as it is shipped");
  const rowhouse = await Rowhouse.start(binary, ["--workers", "1"]);
  try {
    for (let i = 0; i < TENANTS; i += 1) await rowhouse.sql(`CREATE TENANT idle${i}`);
    const used = async (): Promise<number> => {
      const before = await rowhouse.cpuSeconds();
      await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000));
      return (await rowhouse.cpuSeconds()) - before;
    };
    const alone = await used();
    await signIn(page, rowhouse.url);
    await live(page);
    // The list of the last ten minutes is sent once.
    await new Promise((resolve) => setTimeout(resolve, 8000));
    const watched = await used();
    console.log(`${alone.toFixed(2)} s of processor time in ${SECONDS} s without, ${watched.toFixed(2)} s with the console`);
    expect(watched - alone).toBeLessThanOrEqual(0.01 * SECONDS);
  } finally {
    await rowhouse.stop();
  }
});
