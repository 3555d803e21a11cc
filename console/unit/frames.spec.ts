import { expect, test } from "@playwright/test";
import type { Frame } from "../src/api/types";
import { assignPlaces, emptyPlaces, placeOf } from "../src/colour/assign";
import {
  appendFrame,
  BAND_OTHERS,
  BAND_SYSTEM,
  bandOfPlace,
  bandsOf,
  byteSplits,
  causes,
  countSplits,
  FRAMES_MAX_S,
  linesOf,
  niceBytes,
  niceCeiling,
  niceCount,
  stacked,
  tenantRows,
  thinned,
} from "../src/live/frames";
import { rankTenants } from "../src/live/rank";

const promise = { promised: 1, max: null, given: 0.5, demanded: 0.6, missed: 0, cause: null };
function frame(
  t_ms: number,
  cpu: [id: number, value: number][],
  others = 0,
  tenant?: { name: string; missed: number; cause: string | null },
): Frame {
  const values = cpu.map(([, value]) => value);
  const series = { capacity: 8, total: values.reduce((sum, value) => sum + value, others), values, others };
  return {
    t_ms,
    tenants: cpu.map(([id]) => [id, id === 0 ? "system" : `t${id}`]),
    cpu: series,
    volumes: [{ name: "default", ...series }],
    memory: series,
    throughput: series,
    lines: [],
    sessions: 0,
    broken: { cpu: 0, io: 0, memory: 0, work_memory: 0 },
    ...(tenant
      ? {
          tenant: {
            name: tenant.name,
            cpu: { ...promise, missed: tenant.missed, cause: tenant.cause },
            io: [],
            memory: { promised_bytes: 1, max_bytes: null, resident_bytes: 1, demanded: 0, given: 0, missed: 0, cause: null },
            work_memory: { promised_bytes: 0, used_bytes: 0, missed: 0, cause: null },
            statements_per_s: 5,
            p50_ms: 1,
            p99_ms: 2,
            sessions: 1,
            waits: {},
          },
        }
      : {}),
  };
}
const place = (ids: number[]) =>
  assignPlaces(
    emptyPlaces(),
    ids.map((id) => ({ id, name: `t${id}` })),
    null,
    0,
  );

test("frames are kept as long as the server keeps them, in order, each once", () => {
  const frames: Frame[] = [];
  for (let s = 0; s < FRAMES_MAX_S + 100; s += 1) appendFrame(frames, frame(s * 1000, []));
  appendFrame(frames, frame(5000, []));
  expect(frames).toHaveLength(FRAMES_MAX_S + 1);
  expect(frames.every((one, i) => i === 0 || one.t_ms > (frames[i - 1] as Frame).t_ms)).toBe(true);
});

test("every tenant has a line, by a colour or without", () => {
  const frames = [
    {
      ...frame(0, [
        [0, 9],
        [1, 5],
        [3, 2],
      ]),
      lines: [
        [1, 5],
        [3, 2],
        [4, 1],
      ],
    },
    {
      ...frame(1000, [[0, 9]]),
      lines: [
        [2, 7],
        [4, 0.5],
      ],
    },
    // A gap.
    { ...frame(9000, [[2, 3]]), lines: [[2, 3]] },
  ] as Frame[];
  const { x, values, rest } = linesOf(frames, place([1, 2]));
  expect(x).toEqual([0, 1, 2, 9]);
  const row = (id: number) => values[bandOfPlace(placeOf(place([1, 2]), id) as number)];
  expect(row(1)).toEqual([5, null, null, null]);
  // What the lines say of it, where it is not among the busiest.
  expect(row(2)).toEqual([null, 7, null, 3]);
  expect(values[BAND_SYSTEM]).toEqual([9, 9, null, null]);
  expect([...rest.keys()].sort()).toEqual([3, 4]);
  expect(rest.get(3)).toEqual([2, 0, null, 0]);
  expect(rest.get(4)).toEqual([1, 0.5, null, 0]);
});

test("a line of many points keeps its peaks and its gaps", () => {
  expect(thinned([1, 9, 2, 3, 4], 3)).toEqual([
    { at: 1, value: 9 },
    { at: 3, value: 3 },
    { at: 4, value: 4 },
  ]);
  expect(thinned([1, null, 2, 3], 2)).toEqual([
    { at: 1, value: null },
    { at: 3, value: 3 },
  ]);
  expect(thinned([1, 2], 600)).toEqual([
    { at: 0, value: 1 },
    { at: 1, value: 2 },
  ]);
});

test("the bands' sum is the total, whoever has a place", () => {
  const places = place([1, 2]);
  const frames = [
    frame(
      0,
      [
        [0, 0.3],
        [1, 1],
        [2, 2],
        [3, 0.25],
      ],
      0.5,
    ),
    frame(
      1000,
      [
        [2, 2],
        [4, 1.5],
      ],
      0.75,
    ),
  ];
  const { values } = bandsOf(frames, places, (one) => one.cpu, 0);
  frames.forEach((one, i) => expect(values.reduce((sum, row) => sum + (row[i] ?? 0), 0)).toBeCloseTo(one.cpu.total));
  expect(values[BAND_SYSTEM]).toEqual([0.3, 0]);
  expect(values[BAND_OTHERS]).toEqual([0.75, 2.25]);
  expect(values[bandOfPlace(placeOf(places, 1) as number)]).toEqual([1, 0]);
});

test("a tenant that a frame does not name is unknown in a line", () => {
  const places = place([1, 2]);
  const { values } = bandsOf([frame(0, [[1, 1]]), frame(1000, [[2, 2]])], places, (one) => one.cpu, null);
  expect(values[bandOfPlace(placeOf(places, 1) as number)]).toEqual([1, null]);
});

test("time without frames is a gap, not a slope", () => {
  const { x, values } = bandsOf([frame(0, [[1, 1]]), frame(60_000, [[1, 1]])], place([1]), (one) => one.cpu, 0);
  expect(x).toEqual([0, 1, 60]);
  expect(values[BAND_OTHERS]).toEqual([0, null, 0]);
});

test("areas upon each other end at the sums below them", () => {
  expect(
    stacked([
      [1, null],
      [2, null],
      [3, null],
    ]),
  ).toEqual([
    [1, null],
    [3, null],
    [6, null],
  ]);
});

test("frames of another tenant say nothing of this one", () => {
  const { values } = tenantRows(
    [frame(0, [], 0, { name: "a", missed: 0, cause: null }), frame(1000, [], 0, { name: "b", missed: 0, cause: null })],
    "a",
    [(one) => one.statements_per_s],
  );
  expect(values).toEqual([[5, null]]);
});

test("broken seconds are counted by cause, most first", () => {
  const frames = [
    frame(0, [], 0, { name: "a", missed: 0.1, cause: "device" }),
    frame(1000, [], 0, { name: "a", missed: 0.1, cause: "neighbour" }),
    frame(2000, [], 0, { name: "a", missed: 0.2, cause: "neighbour" }),
    frame(3000, [], 0, { name: "a", missed: 0, cause: null }),
    frame(4000, [], 0, { name: "b", missed: 1, cause: "system" }),
  ];
  expect(causes(frames, "a", (one) => one.cpu)).toEqual({
    seen: 4,
    broken: 3,
    by: [
      ["neighbour", 2],
      ["device", 1],
    ],
  });
});

test("what came late is broken, too, though nothing is missed in the end", () => {
  const late = [
    frame(1, [], 0, { name: "a", missed: 0, cause: "neighbour" }),
    frame(2, [], 0, { name: "a", missed: 0, cause: null }),
  ];
  expect(causes(late, "a", (one) => one.cpu)).toEqual({ seen: 2, broken: 1, by: [["neighbour", 1]] });
});

test("an axis ends at a round figure at or above the largest", () => {
  for (const value of [0.0004, 0.031, 0.9, 1, 7.2, 63, 640, 12_345, 9_999_999]) {
    expect(niceCeiling(value, 0)).toBeGreaterThanOrEqual(value);
    expect(niceCeiling(value, 0)).toBeLessThanOrEqual(value * 2);
    expect(niceBytes(value * 1e6, 0)).toBeGreaterThanOrEqual(value * 1e6);
  }
  expect(niceCeiling(0, 0)).toBe(1);
  expect(niceBytes(0, 0)).toBe(1024);
  expect(niceCeiling(7, 0)).toBe(8);
  expect(byteSplits(16 * 2 ** 30)).toEqual([0, 4, 8, 12, 16].map((gib) => gib * 2 ** 30));
});

test("an axis of counts has whole numbers, each once", () => {
  for (const value of [0, 0.3, 1, 2.2, 4, 5, 6, 9.9, 10, 14, 40, 63, 250, 800, 1000, 6000, 12_345, 9_999_999]) {
    const top = niceCount(value, 0);
    expect(top).toBeGreaterThanOrEqual(Math.max(4, value));
    const splits = countSplits(top);
    expect(splits.every(Number.isInteger), `${value}: ${splits.join()}`).toBe(true);
    expect(new Set(splits).size).toBe(splits.length);
    expect(splits.length, `${value}: ${splits.join()}`).toBeGreaterThanOrEqual(3);
    expect(splits.length).toBeLessThanOrEqual(6);
  }
  expect(countSplits(niceCount(0, 0))).toEqual([0, 1, 2, 3, 4]);
  expect(countSplits(niceCount(550, 0))).toEqual([0, 200, 400, 600]);
});

test("who is drawn stays until somebody uses half as much again", () => {
  const seconds = (held: number, other: number) =>
    Array.from({ length: 60 }, (_, s) =>
      frame(s * 1000, [
        [0, 9],
        [1, held],
        [2, other],
      ]),
    );
  const first = (frames: Frame[]) => rankTenants(frames, (id) => id === 1)[0]?.id;
  expect(first(seconds(1, 1.3))).toBe(1);
  expect(first(seconds(1, 1.7))).toBe(2);
  expect(rankTenants(seconds(1, 1), () => false).some(({ id }) => id === 0)).toBe(false);
});
