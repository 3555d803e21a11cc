/** What the stream said lately, and what the charts draw of it. Pure: no document, no clock. */
import { SLOTS, type Places } from "../colour/assign";
import type { Frame, FrameSeries } from "../api/types";

/** As long as the server remembers. */
export const FRAMES_MAX_S = 600;
/** The tenant that stands for the server's own work. */
export const SYSTEM = "system";

/** Appends `frame`, drops what is older than `FRAMES_MAX_S` before it. A frame that is not later than the last is ignored (a stream that began anew repeats some). */
export function appendFrame(frames: Frame[], frame: Frame): void {
  const last = frames.at(-1);
  if (last !== undefined && frame.t_ms <= last.t_ms) return;
  frames.push(frame);
  const from = frame.t_ms - FRAMES_MAX_S * 1000;
  let drop = 0;
  while (frames[drop] !== undefined && (frames[drop] as Frame).t_ms < from) drop += 1;
  if (drop > 0) frames.splice(0, drop);
}

/** Rows of a chart: `x` in seconds; `values[row][i]` at `x[i]`, null where nothing is known. */
export interface Bands {
  x: number[];
  /** `system`, then one for each place, then the others. */
  values: (number | null)[][];
}

export const BAND_SYSTEM = 0;
export const bandOfPlace = (place: number): number => place + 1;
export const BAND_OTHERS = SLOTS + 1;
export const BANDS = SLOTS + 2;

export type SeriesOf = (frame: Frame) => FrameSeries | undefined;

/** A gap in time longer than this is drawn as one. */
const GAP_MS = 3500;

function withGaps(frames: readonly Frame[], each: (frame: Frame | null, x: number) => void): void {
  let last = -Infinity;
  for (const frame of frames) {
    if (last !== -Infinity && frame.t_ms - last > GAP_MS) each(null, (last + 1000) / 1000);
    each(frame, frame.t_ms / 1000);
    last = frame.t_ms;
  }
}

/**
 * One row for each band. What belongs to a tenant without a place is added to the others, so that the bands' sum is the total. The band of a tenant that a frame
 * does not name is 0 there if `missing` is 0 (it is among the frame's others), and unknown if it is null.
 */
export function bandsOf(frames: readonly Frame[], places: Places, series: SeriesOf, missing: 0 | null): Bands {
  const placeOfId = new Map<number, number>();
  places.forEach((holder, place) => {
    if (holder !== null) placeOfId.set(holder.id, bandOfPlace(place));
  });
  const x: number[] = [];
  const values: (number | null)[][] = Array.from({ length: BANDS }, () => []);
  withGaps(frames, (frame, at) => {
    const of = frame === null ? undefined : series(frame);
    const column: (number | null)[] = Array.from({ length: BANDS }, () => (of === undefined ? null : missing));
    if (frame !== null && of !== undefined) {
      let others = of.others;
      frame.tenants.forEach(([id, name], i) => {
        const value = of.values[i] ?? 0;
        const band = name === SYSTEM ? BAND_SYSTEM : placeOfId.get(id);
        if (band === undefined) others += value;
        else column[band] = (column[band] ?? 0) + value;
      });
      column[BAND_OTHERS] = others;
    }
    x.push(at);
    column.forEach((value, band) => values[band]?.push(value));
  });
  return { x, values };
}

/** Every tenant's throughput. */
export interface Lines extends Bands {
  /** A row for each tenant without a place, by its number. */
  rest: Map<number, (number | null)[]>;
}

/** The bands' lines, and one for each tenant that has no place. Whom a frame does not name ran nothing in it. */
export function linesOf(frames: readonly Frame[], places: Places): Lines {
  const bands = bandsOf(frames, places, (frame) => frame.throughput, null);
  const nothing: (number | null)[] = [];
  withGaps(frames, (frame) => nothing.push(frame === null ? null : 0));
  const rowOfId = new Map<number, (number | null)[]>();
  places.forEach((holder, place) => {
    const row = bands.values[bandOfPlace(place)];
    if (holder !== null && row !== undefined) rowOfId.set(holder.id, row);
  });
  const rest = new Map<number, (number | null)[]>();
  let at = 0;
  withGaps(frames, (frame) => {
    const set = (id: number, value: number): void => {
      let row = rowOfId.get(id) ?? rest.get(id);
      if (row === undefined) rest.set(id, (row = [...nothing]));
      row[at] = value;
    };
    for (const [id, rate] of frame?.lines ?? []) set(id, rate);
    frame?.tenants.forEach(([id, name], i) => {
      if (name !== SYSTEM) set(id, frame.throughput.values[i] ?? 0);
    });
    at += 1;
  });
  return { ...bands, rest };
}

/** The largest values of as many stretches as `max`, of which the last may be shorter: what a line of so many points is drawn by. */
export function thinned(row: readonly (number | null)[], max: number): { at: number; value: number | null }[] {
  const stretch = Math.max(1, Math.ceil(row.length / Math.max(1, max)));
  const points: { at: number; value: number | null }[] = [];
  for (let from = 0; from < row.length; from += stretch) {
    let point: { at: number; value: number | null } = { at: from, value: row[from] ?? null };
    for (let at = from + 1; at < Math.min(row.length, from + stretch); at += 1) {
      const value = row[at] ?? null;
      // A gap stays one.
      if (value === null || point.value === null) point = { at: point.value === null ? point.at : at, value: null };
      else if (value > point.value) point = { at, value };
    }
    points.push(point);
  }
  return points;
}

/** Sums from the first row on, as areas upon each other are drawn. */
export function stacked(values: readonly (number | null)[][]): (number | null)[][] {
  const sums: (number | null)[][] = [];
  values.forEach((row, band) => {
    const below = sums[band - 1];
    sums.push(row.map((value, i) => (value === null ? null : value + (below?.[i] ?? 0))));
  });
  return sums;
}

/** One row for each of `pick`, of the frames that say something of the watched tenant. */
export function tenantRows(
  frames: readonly Frame[],
  name: string,
  pick: readonly ((frame: NonNullable<Frame["tenant"]>) => number | null | undefined)[],
): Bands {
  const x: number[] = [];
  const values: (number | null)[][] = pick.map(() => []);
  withGaps(frames, (frame, at) => {
    const tenant = frame?.tenant?.name === name ? frame.tenant : null;
    x.push(at);
    pick.forEach((of, row) => values[row]?.push(tenant === null ? null : (of(tenant) ?? null)));
  });
  return { x, values };
}

/** A resource's top of the axis: a round number at or above the largest of `values`, `least` at least. Tens have steps of 1, 1.5, 2, 3, 4, 5, 6, 8. */
export function niceCeiling(largest: number, least: number): number {
  const value = Math.max(largest, least);
  if (!(value > 0)) return 1;
  const ten = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.5, 2, 3, 4, 5, 6, 8]) if (value <= step * ten * (1 + 1e-9)) return Math.max(value, step * ten);
  return 10 * ten;
}

/** As `niceCeiling`, of what is counted: four at least, so that there are whole numbers below it. */
export function niceCount(largest: number, least: number): number {
  return Math.max(4, niceCeiling(largest, least));
}

/** Whole numbers by 1, 2 or 5 of some ten: six of them at most. */
export function countSplits(top: number): number[] {
  const ten = 10 ** Math.max(0, Math.floor(Math.log10(top / 5)));
  const step = [1, 2, 5, 10].map((one) => one * ten).find((one) => top / one <= 5) ?? top;
  const splits: number[] = [];
  for (let at = 0; at <= top * (1 + 1e-9); at += step) splits.push(at);
  return splits;
}

/** As `niceCeiling`, of bytes: powers of two and one and a half times such, 1 KiB at least. */
export function niceBytes(largest: number, least: number): number {
  const value = Math.max(largest, least, 1024);
  const power = 2 ** Math.floor(Math.log2(value));
  for (const step of [1, 1.25, 1.5]) if (value <= step * power) return step * power;
  return 2 * power;
}

/** Bytes by powers of two: some four of them. */
export function byteSplits(top: number): number[] {
  const step = 2 ** Math.ceil(Math.log2(top / 5));
  const splits: number[] = [];
  for (let at = 0; at <= top * (1 + 1e-9); at += step) splits.push(at);
  return splits;
}

/** How a promise was kept in a second. */
export interface Kept {
  missed: number | null;
  cause: string | null;
}

/** A promise of each request is broken by one that came late, though nothing is missed by the interval's end: then there is a cause alone. */
export function isBroken(kept: Kept | undefined): kept is Kept {
  return kept !== undefined && (kept.cause !== null || Number(kept.missed) > 0);
}

/** How many frames broke a promise, by cause, most first. */
export function causes(
  frames: readonly Frame[],
  name: string,
  of: (frame: NonNullable<Frame["tenant"]>) => Kept | undefined,
): { seen: number; broken: number; by: [string, number][] } {
  const by = new Map<string, number>();
  let seen = 0;
  let broken = 0;
  for (const frame of frames) {
    if (frame.tenant?.name !== name) continue;
    seen += 1;
    const one = of(frame.tenant);
    if (!isBroken(one)) continue;
    broken += 1;
    const cause = one.cause ?? "unknown";
    by.set(cause, (by.get(cause) ?? 0) + 1);
  }
  return { seen, broken, by: [...by].sort((a, b) => b[1] - a[1]) };
}
