/** What tests do with the page, whoever serves it. */
import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect, type Page } from "@playwright/test";

const require = createRequire(import.meta.url);
const SCREENS = fileURLToPath(new URL("../test-results/screens/", import.meta.url));
export const WIDE = { width: 1280, height: 900 };
export const NARROW = { width: 390, height: 844 };

export async function signIn(page: Page, url: string, user = "admin", password = "secret"): Promise<void> {
  await page.goto(url);
  await page.getByLabel("User").fill(user);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("navigation", { name: "Pages" })).toBeVisible();
}

/** Goes to a page of the console and waits for its heading. */
export async function visit(page: Page, hash: string): Promise<void> {
  await page.evaluate((to) => (location.hash = to), hash);
  await expect(page.locator("main h1").first()).toBeAttached();
}

/** Until the stream has brought a frame. */
export async function live(page: Page): Promise<void> {
  await expect(page.locator(".connection")).toHaveText("Live");
}

/** Violations of the accessibility rules that axe checks (WCAG 2.1 A and AA, and best practices), as text. */
export async function accessibility(page: Page): Promise<string[]> {
  const source = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
  await page.evaluate(source);
  return page.evaluate(async () => {
    const axe = (
      window as unknown as {
        axe: {
          run: (
            on: Document,
            options: object,
          ) => Promise<{ violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[] }>;
        };
      }
    ).axe;
    const { violations } = await axe.run(document, {
      runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] },
    });
    return violations.map(
      ({ id, help, nodes }) =>
        `${id}: ${help}\n${nodes
          .slice(0, 3)
          .map((node) => `  ${node.html.slice(0, 200)}\n  ${node.failureSummary.replaceAll("\n", " ").slice(0, 300)}`)
          .join("\n")}`,
    );
  });
}

export async function screenshot(page: Page, name: string, whole = true): Promise<void> {
  await page.screenshot({ path: `${SCREENS}${name}.png`, fullPage: whole });
}

const PER_WIDTH = [
  [1280, WIDE],
  [390, NARROW],
] as const;

/**
 * The page as it stands, in both themes and both widths: accessible, not wider than the window, and kept as a picture `NAME-THEME-WIDTH`. It has to take its colours
 * from the system. Ends light and wide.
 */
export async function looks(page: Page, name: string): Promise<void> {
  await page.emulateMedia({ reducedMotion: "reduce" });
  for (const [width, viewport] of [...PER_WIDTH].reverse()) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ["dark", "light"] as const) {
      await page.emulateMedia({ colorScheme });
      // Charts are drawn anew for the width and the colours in the frames after.
      await page.evaluate(
        () =>
          new Promise((done) => {
            scrollTo(0, 0);
            requestAnimationFrame(() => requestAnimationFrame(done));
          }),
      );
      const which = `${name}-${colorScheme}-${width}`;
      await screenshot(page, which);
      expect.soft(await accessibility(page), which).toEqual([]);
      expect.soft(await overflow(page), which).toBe(0);
    }
  }
}

/** How far the document is wider than the window: what would have to be scrolled sideways. */
export function overflow(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

interface LayoutShift extends PerformanceEntry {
  hadRecentInput: boolean;
  sources: { node: Node | null; previousRect: DOMRectReadOnly; currentRect: DOMRectReadOnly }[];
}

/**
 * What the browser saw shift (as in Cumulative Layout Shift) during so many seconds without one's doing: each box, with where it was and where it went. A figure that
 * gets a digit more begins further left in a box that stays: that is none of them.
 */
export function layoutShifts(page: Page, seconds: number): Promise<string[]> {
  return page.evaluate(
    (span) =>
      new Promise((resolve) => {
        const moved: string[] = [];
        const place = ({ x, y, width, height }: DOMRectReadOnly) => [x, y, width, height].map(Math.round).join(" ");
        const observer = new PerformanceObserver((list) => {
          for (const shift of (list.getEntries() as LayoutShift[]).filter((one) => !one.hadRecentInput))
            for (const { node, previousRect, currentRect } of shift.sources) {
              const [from, to] = [place(previousRect), place(currentRect)];
              const of = node instanceof Element ? node : node?.parentElement;
              if (from !== to) moved.push(`${of?.outerHTML.slice(0, 120)}: ${from} to ${to}`);
            }
        });
        observer.observe({ type: "layout-shift" });
        setTimeout(() => {
          observer.disconnect();
          resolve(moved);
        }, span * 1000);
      }),
    seconds,
  );
}

/** What a page must never do: errors on the console, and requests to anybody but `url`. Read after the test. */
export function watchPage(page: Page, url: string): string[] {
  const found: string[] = [];
  page.on("pageerror", (error) => found.push(`error: ${error.message}`));
  // The browser itself logs refused requests; what the page does about those, tests say.
  page.on(
    "console",
    (message) =>
      message.type() === "error" &&
      !message.text().startsWith("Failed to load resource") &&
      found.push(`console: ${message.text()}`),
  );
  page.on(
    "request",
    (request) =>
      !request.url().startsWith(url) && !request.url().startsWith("data:") && found.push(`elsewhere: ${request.url()}`),
  );
  return found;
}

/** Colour of a swatch, as drawn. */
export function colourOf(page: Page, selector: string): Promise<string> {
  return page
    .locator(selector)
    .first()
    .evaluate((element) => getComputedStyle(element).backgroundColor);
}
