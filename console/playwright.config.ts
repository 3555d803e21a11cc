// `unit`: the pure parts, no browser. `mock`: the page against the development server, for what a real one cannot be brought to do. `server`: against `rowhouse serve` under load and `rowhouse demo`. `pictures`: no tests, but the README's pictures.
import { defineConfig } from "@playwright/test";

export default defineConfig({
  // Every test has its own server or shares one that it does not change; one at a time, since all of them draw.
  workers: 1,
  forbidOnly: true,
  // A browser on two shared cores: what passes at the second try only is listed as flaky.
  retries: process.env["CI"] ? 1 : 0,
  // Machines that run tests stand still at times: these only end what hangs.
  timeout: 240_000,
  expect: { timeout: 30_000 },
  outputDir: "test-results/runs",
  reporter: [["list"]],
  use: {
    launchOptions: {
      executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-dev-shm-usage"],
    },
    locale: "en-US",
    timezoneId: "UTC",
    viewport: { width: 1280, height: 900 },
    screenshot: "only-on-failure",
  },
  projects: [
    { name: "unit", testDir: "unit" },
    { name: "mock", testDir: "tests/mock" },
    { name: "server", testDir: "tests/server" },
    { name: "pictures", testDir: "tests/pictures" },
  ],
});
