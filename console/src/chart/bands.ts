/** Who uses how much of a resource: areas upon each other, one for each place of the palette; and every tenant's throughput as a line. */
import uPlot from "uplot";
import type { Frame } from "../api/types";
import { palette } from "../colour/theme";
import type { Disposal } from "../dom";
import { clock } from "../format";
import {
  BANDS,
  BAND_OTHERS,
  BAND_SYSTEM,
  bandOfPlace,
  bandsOf,
  linesOf,
  niceCeiling,
  stacked,
  SYSTEM,
  thinned,
  type Lines,
  type SeriesOf,
} from "../live/frames";
import { picked, places } from "../store";
import { Chart, faded, span } from "./plot";

export interface ShareOptions {
  title: string;
  unit: string;
  height: number;
  /** Lines are of throughput. */
  form: "stacked" | "lines";
  series: SeriesOf;
  format: (value: number) => string;
  tick?: (value: number) => string;
  ceiling?: (largest: number, least: number) => number;
  splits?: (top: number) => number[];
  /** The axis ends at the capacity, however little of it is used. */
  toCapacity?: boolean;
  onCursor: (index: number | null) => void;
  onPick: (band: number) => void;
  /** A tenant without a band, by its number. */
  onPickOther?: (id: number) => void;
}

export function bandColour(band: number): string {
  if (band === BAND_SYSTEM) return palette.value.system;
  if (band === BAND_OTHERS) return palette.value.others;
  return palette.value.places[band - 1] ?? palette.value.others;
}

export function bandName(band: number): string | null {
  if (band === BAND_SYSTEM) return SYSTEM;
  if (band === BAND_OTHERS) return "others";
  return places.value[band - 1]?.name ?? null;
}

export function pickedBand(): number | null {
  const tenant = picked.value;
  if (tenant === null) return null;
  if (tenant.name === SYSTEM) return BAND_SYSTEM;
  const place = places.value.findIndex((holder) => holder?.id === tenant.id);
  return place < 0 ? null : bandOfPlace(place);
}

/** Bands in the order they are stacked: what is not a tenant's own stands outermost. */
const BAND_ORDER = Array.from({ length: BANDS }, (_, band) => band);

export class ShareChart {
  readonly chart: Chart;
  #rows: Lines = { x: [], values: [], rest: new Map() };
  #stacked: (number | null)[][] = [];
  #top = 1;
  readonly #options: ShareOptions;

  constructor(options: ShareOptions, disposal: Disposal) {
    this.#options = options;
    const isStacked = options.form === "stacked";
    this.chart = new Chart(
      {
        title: options.title,
        unit: options.unit,
        height: options.height,
        top: () => this.#top,
        tick: options.tick ?? options.format,
        ...(options.splits ? { splits: options.splits } : {}),
        series: BAND_ORDER.map((band) => ({
          label: String(band),
          width: isStacked ? 0.5 : 1.5,
          stroke: () => (isStacked ? palette.value.surface : this.#lineColour(band)),
          ...(isStacked ? { fill: () => this.#areaColour(band) } : {}),
          points: { show: false },
        })),
        ...(isStacked ? { bands: BAND_ORDER.slice(1).map((band) => ({ series: [band + 1, band] as [number, number] })) } : {}),
        hooks: isStacked ? {} : { drawAxes: [(u) => this.#drawRest(u)], draw: [(u) => this.#emphasise(u)] },
        table: () => this.#table(),
        summary: () => this.#summary(),
        onCursor: options.onCursor,
        onClick: (index, value) => this.#click(index, value),
      },
      disposal,
    );
    disposal.add(picked.watch(() => this.chart.redraw()));
  }

  set(frames: readonly Frame[]): void {
    const last = frames.at(-1);
    if (last === undefined) return;
    const from = last.t_ms - (span.seconds + 2) * 1000;
    const shown = frames.filter((frame) => frame.t_ms >= from);
    const isStacked = this.#options.form === "stacked";
    this.#rows = isStacked
      ? { ...bandsOf(shown, places.value, this.#options.series, 0), rest: new Map() }
      : linesOf(shown, places.value);
    this.#stacked = isStacked ? stacked(this.#rows.values) : [];
    const drawn = isStacked
      ? this.#stacked.slice(-1)
      : [...this.#rows.values.filter((_, band) => band !== BAND_OTHERS), ...this.#rows.rest.values()];
    const now = this.#options.series(last);
    let largest = 0;
    for (const row of drawn) for (const value of row) largest = Math.max(largest, value ?? 0);
    const capacity = now?.capacity ?? null;
    this.#top =
      this.#options.toCapacity && capacity !== null
        ? // A second's clock is a little off: what is some hundredths above the capacity is the capacity.
          largest > capacity * 1.1
          ? niceCeiling(largest, 0)
          : capacity
        : (this.#options.ceiling ?? niceCeiling)(largest, 0);
    const { format, unit } = this.#options;
    const tick = this.#options.tick ?? format;
    this.chart.caption(
      now === undefined
        ? ""
        : capacity === null
          ? `${format(now.total)} ${unitOf(format(now.total), unit)}`
          : `${format(now.total)} of ${tick(capacity)} ${unitOf(tick(capacity), unit)}`,
    );
    const values = isStacked
      ? this.#stacked
      : this.#rows.values.map((row, band) => (band === BAND_OTHERS ? row.map(() => null) : row));
    this.chart.set({ x: this.#rows.x, values }, last.t_ms / 1000);
  }

  #areaColour(band: number): string {
    const lit = pickedBand();
    return lit === null || lit === band ? bandColour(band) : faded(bandColour(band), palette.value.dark ? 0.28 : 0.22);
  }
  #lineColour(band: number): string {
    const lit = pickedBand();
    return lit === null ? bandColour(band) : faded(bandColour(band), lit === band ? 0 : 0.45);
  }

  /** Draws the line of the tenant picked out again, above all and thicker. */
  #emphasise(u: uPlot): void {
    const lit = pickedBand();
    const row = lit === null ? undefined : this.#rows.values[lit];
    if (lit === null || row === undefined) return;
    this.#drawLines(u, [row], 2.75, bandColour(lit));
  }

  /** Draws those who have no colour of their own, under all others. */
  #drawRest(u: uPlot): void {
    this.#drawLines(u, this.#rows.rest.values(), 1, faded(palette.value.others, pickedBand() === null ? 0.6 : 0.3));
  }

  #drawLines(u: uPlot, rows: Iterable<readonly (number | null)[]>, width: number, colour: string): void {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.beginPath();
    // There may be hundreds of lines: both axes are straight, so each is asked for once.
    const xs = this.#rows.x.map((x) => u.valToPos(x, "x", true));
    const zero = u.valToPos(0, "y", true);
    const one = u.valToPos(1, "y", true) - zero;
    const points_max = bbox.width / uPlot.pxRatio;
    for (const row of rows) {
      let pen = false;
      const point = (at: number, value: number | null): void => {
        if (value !== null) {
          if (pen) ctx.lineTo(xs[at] as number, zero + one * value);
          else ctx.moveTo(xs[at] as number, zero + one * value);
        }
        pen = value !== null;
      };
      if (row.length <= points_max) row.forEach((value, at) => point(at, value));
      else for (const { at, value } of thinned(row, points_max)) point(at, value);
    }
    ctx.lineJoin = "round";
    ctx.lineWidth = width * uPlot.pxRatio;
    ctx.strokeStyle = colour;
    ctx.stroke();
    ctx.restore();
  }

  /** The figures at an index of the axis of time, or the latest. */
  at(index: number | null): (number | null)[] {
    const i = index ?? this.#rows.x.length - 1;
    return this.#rows.values.map((row) => row[i] ?? null);
  }
  timeAt(index: number): number | null {
    const at = this.#rows.x[index];
    return at === undefined ? null : at * 1000;
  }

  #click(index: number, value: number): void {
    if (this.#options.form === "stacked") {
      const band = this.#stacked.findIndex((row) => (row[index] ?? 0) >= value);
      if (band >= 0) this.#options.onPick(band);
      return;
    }
    let nearest: (() => void) | null = null;
    let least = this.#top / 12;
    const look = (row: readonly (number | null)[], pick: () => void): void => {
      const distance = Math.abs((row[index] ?? Infinity) - value);
      if (distance < least) [nearest, least] = [pick, distance];
    };
    this.#rows.values.forEach((row, band) => {
      if (band !== BAND_OTHERS) look(row, () => this.#options.onPick(band));
    });
    for (const [id, row] of this.#rows.rest) look(row, () => this.#options.onPickOther?.(id));
    (nearest as (() => void) | null)?.();
  }

  #shownBands(): number[] {
    return BAND_ORDER.filter((band) => bandName(band) !== null);
  }
  #table(): { heads: string[]; rows: string[][] } {
    const bands = this.#shownBands();
    const rows: string[][] = [];
    for (let i = this.#rows.x.length - 1; i >= 0 && rows.length < 60; i -= 1) {
      rows.push([
        clock((this.#rows.x[i] ?? 0) * 1000),
        ...bands.map((band) => {
          const value = this.#rows.values[band]?.[i];
          return value === null || value === undefined ? "" : this.#options.format(value);
        }),
      ]);
    }
    return { heads: ["Time", ...bands.map((band) => bandName(band) ?? "")], rows };
  }
  #summary(): string {
    const now = this.at(null);
    const named = this.#shownBands()
      .map((band) => [bandName(band) ?? "", now[band] ?? 0] as const)
      .sort((a, b) => b[1] - a[1])
      .slice(0, 4);
    const rest = this.#rows.rest.size === 0 ? "" : ` ${this.#rows.rest.size} more tenants have lines without a name.`;
    return `Now most: ${named.map(([name, value]) => `${name} ${this.#options.format(value)}`).join(", ")}.${rest}`;
  }
}

/** The unit, unless the figure already carries one. */
function unitOf(text: string, unit: string): string {
  return /[a-zB]$/.test(text) && !/ [kMG]$/.test(text) ? "" : unit;
}
