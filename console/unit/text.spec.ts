import { expect, test } from "@playwright/test";
import { queryText, segment } from "../src/api/client";
import { bytes, cores, count, instant, instantUtc, ledgerFigure, millis, percent, seconds, whole } from "../src/format";
import { backoff_ms } from "../src/live/backoff";
import { RowWindow, PAGE_ROWS } from "../src/table/window";

test("figures have units that fit their size", () => {
  expect([0, 7, 99.5, 950, 12_345, 4_560_000].map(count)).toEqual(["0", "7", "99.5", "950", "12.3 k", "4.56 M"]);
  expect([512, 65_536, 268_435_456, 1_342_177_280].map(bytes)).toEqual(["512 B", "64 KiB", "256 MiB", "1.25 GiB"]);
  expect([0, 0.004, 0.42, 85, 1300, 240_000].map(millis)).toEqual(["0 ms", "4 µs", "0.42 ms", "85 ms", "1.30 s", "4 min"]);
  expect([0.25, 1, 300, 90_000, 1_000_000].map(seconds)).toEqual(["250 ms", "1 s", "5 min", "25 h", "11.6 d"]);
  expect([0, 0.05, 0.5, 12.345].map(cores)).toEqual(["0.00", "0.050", "0.50", "12.35"]);
  expect([0, 0.012, 0.5, 1].map(percent)).toEqual(["0 %", "1.2 %", "50 %", "100 %"]);
  expect(whole(1_640_932)).toBe("1,640,932");
  expect([ledgerFigure("cpu", 0.0123), ledgerFigure("cpu", 182_004.25), ledgerFigure("io", 12.4)]).toEqual([
    "0.012",
    "182,004.3",
    "12",
  ]);
});

test("what is not known is a dash, never NaN", () => {
  for (const format of [count, bytes, millis, seconds, cores, percent, whole])
    for (const unknown of [null, undefined, NaN]) expect(format(unknown)).toBe("–");
});

test("a query leaves out what is not said, and escapes what is", () => {
  expect(queryText({ search: "a&b", sort: "name", offset: 0, tenant: "", cause: undefined, p99_ms: null })).toBe(
    "?search=a%26b&sort=name&offset=0",
  );
  expect(queryText({ watch: ["a,b", "c"], none: [] })).toBe("?watch=a%2Cb,c");
  expect(queryText({})).toBe("");
});

test("a name is one step of a path, whatever is in it", () => {
  expect(["a/b", ".", "..", "...", ".a"].map(segment)).toEqual(["a%2Fb", "...", "....", ".....", ".a"]);
  for (const name of [".", "..", "..."])
    expect(new URL(`/api/tenants/${segment(name)}/locks`, "http://x").pathname.split("/").length).toBe(5);
});

test("tries come further apart, and never more than 15 s", () => {
  const waits = Array.from({ length: 12 }, (_, attempt) => backoff_ms(attempt, 0));
  expect(waits.slice(0, 4)).toEqual([500, 1000, 2000, 4000]);
  expect(Math.max(...waits)).toBe(15_000);
  expect(backoff_ms(3, 1)).toBe(3000);
});

test("a window fetches the pieces in view, once", () => {
  const window = new RowWindow<number>();
  expect(window.pages(0, 40, "absent")).toEqual([0]);
  window.put(
    0,
    Array.from({ length: PAGE_ROWS }, (_, i) => i),
    1000,
  );
  expect(window.pages(0, 40, "absent")).toEqual([]);
  expect(window.pages(90, 310, "absent")).toEqual([1, 2, 3]);
  expect([window.row(99), window.row(100)]).toEqual([99, undefined]);
  window.put(
    9,
    Array.from({ length: PAGE_ROWS }, (_, i) => 900 + i),
    1000,
  );
  expect(window.pages(950, 5000, "all")).toEqual([9]);
  window.keepOnly(900, 1000);
  expect([window.row(5), window.row(905)]).toEqual([undefined, 905]);
});

test("a list that changed its length is fetched anew", () => {
  const window = new RowWindow<number>();
  window.put(0, [1], 101);
  window.put(1, [2], 102);
  expect([window.row(0), window.row(PAGE_ROWS), window.matched]).toEqual([undefined, 2, 102]);
});

test("a statement's times are the same wherever it is read", () => {
  const zone = process.env["TZ"];
  process.env["TZ"] = "America/New_York";
  try {
    const first = Date.UTC(2026, 10, 1);
    expect(instant(first)).toBe("2026-10-31 20:00:00");
    expect(instantUtc(first)).toBe("2026-11-01 00:00:00");
  } finally {
    if (zone === undefined) delete process.env["TZ"];
    else process.env["TZ"] = zone;
  }
  expect(instantUtc(null)).toBe("–");
});
