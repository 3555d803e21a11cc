/** A tenant's resource over time: promised, demanded and given, and below them a lane that is marked wherever the promise was broken. */
import type uPlot from "uplot";
import type { Frame, TenantFrame } from "../api/types";
import { palette } from "../colour/theme";
import { h, replace, type Disposal } from "../dom";
import { causes, isBroken, niceCeiling, tenantRows, type Kept } from "../live/frames";
import { clock } from "../format";
import { Chart, faded, span } from "./plot";

export interface LineOf {
  name: string;
  of: (frame: TenantFrame) => number | null | undefined;
  look: "given" | "demanded" | "promised" | "limit" | "plain" | "second";
}

export interface TenantChartOptions {
  name: string;
  title: string;
  unit: string;
  height: number;
  lines: LineOf[];
  format: (value: number) => string;
  /** Of the axis, where the unit stands already; `format` if absent. */
  tick?: (value: number) => string;
  ceiling?: (largest: number, least: number) => number;
  splits?: (top: number) => number[];
  /** Where the promise stands; absent for charts of what is not promised. */
  kept?: (frame: TenantFrame) => Kept | undefined;
  /** What was missed of it; `format` if absent. */
  missedFormat?: (value: number) => string;
  /** The tenant's own colour. */
  colour: () => string;
}

const CAUSE_TEXT: Record<string, string> = {
  overbooked: "more was wanted than there is",
  device: "the device was slower than calibrated",
  system: "the server's own work",
  neighbour: "another tenant",
};
export function causeText(cause: string | null): string {
  return cause === null ? "" : (CAUSE_TEXT[cause] ?? cause);
}

export class TenantChart {
  readonly element: HTMLElement;
  readonly #chart: Chart;
  readonly #options: TenantChartOptions;
  readonly #legend: HTMLElement;
  readonly #verdict: HTMLElement;
  #shown: Frame[] = [];
  #rows: { x: number[]; values: (number | null)[][] } = { x: [], values: [] };
  #top = 1;
  #cursor: number | null = null;

  constructor(options: TenantChartOptions, disposal: Disposal) {
    this.#options = options;
    this.#legend = h("div", { class: "chart-legend" });
    this.#verdict = h("p", { class: "chart-verdict" });
    this.#chart = new Chart(
      {
        title: options.title,
        unit: options.unit,
        height: options.height,
        top: () => this.#top,
        tick: options.tick ?? options.format,
        ...(options.splits ? { splits: options.splits } : {}),
        series: options.lines.map((line) => this.#series(line)),
        hooks: options.kept ? { draw: [(u) => this.#drawBroken(u)] } : {},
        table: () => this.#table(),
        summary: () => this.#summary(),
        onCursor: (index) => {
          this.#cursor = index;
          this.#fillLegend();
        },
      },
      disposal,
    );
    this.element = this.#chart.element;
    this.element.append(this.#legend);
    if (options.kept) this.element.append(this.#verdict);
    this.#fillLegend();
  }

  set(frames: readonly Frame[]): void {
    const last = frames.at(-1);
    if (last === undefined) return;
    this.#shown = frames.filter((frame) => frame.t_ms >= last.t_ms - (span.seconds + 2) * 1000);
    this.#rows = tenantRows(
      this.#shown,
      this.#options.name,
      this.#options.lines.map((line) => line.of),
    );
    let largest = 0;
    for (const row of this.#rows.values) for (const value of row) largest = Math.max(largest, value ?? 0);
    this.#top = (this.#options.ceiling ?? niceCeiling)(largest * 1.08, 0);
    this.#chart.set(this.#rows, last.t_ms / 1000);
    this.#fillLegend();
    this.#fillVerdict();
  }

  #series(line: LineOf): uPlot.Series {
    const looks: Record<LineOf["look"], uPlot.Series> = {
      given: { width: 1.5, stroke: () => this.#options.colour(), fill: () => faded(this.#options.colour(), 0.28) },
      plain: { width: 1.75, stroke: () => this.#options.colour() },
      second: { width: 1.5, stroke: () => palette.value.muted },
      demanded: { width: 1.25, stroke: () => palette.value.ink, dash: [2, 3] },
      promised: { width: 2, stroke: () => palette.value.accent },
      limit: { width: 1, stroke: () => palette.value.muted, dash: [8, 4] },
    };
    return { label: line.name, points: { show: false }, ...looks[line.look] };
  }

  /** A tick in the lane at the plot's head for each second in which the promise was broken. */
  #drawBroken(u: uPlot): void {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.fillStyle = palette.value.bad;
    for (const frame of this.#shown) {
      const kept = frame.tenant?.name === this.#options.name ? this.#options.kept?.(frame.tenant) : undefined;
      if (!isBroken(kept)) continue;
      const x = u.valToPos(frame.t_ms / 1000, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.fillRect(x - 1.25 * ratio, bbox.top, 2.5 * ratio, 5 * ratio);
      ctx.globalAlpha = 0.14;
      ctx.fillRect(x - 1.25 * ratio, bbox.top + 5 * ratio, 2.5 * ratio, bbox.height - 5 * ratio);
      ctx.globalAlpha = 1;
    }
    ctx.restore();
  }

  #fillLegend(): void {
    const i = this.#cursor ?? this.#rows.x.length - 1;
    const at = this.#rows.x[i];
    replace(
      this.#legend,
      ...this.#options.lines.map((line, row) => {
        const value = this.#rows.values[row]?.[i];
        const swatch = h("i", { class: `swatch swatch-${line.look}` });
        if (line.look === "given" || line.look === "plain") swatch.style.setProperty("--swatch", this.#options.colour());
        return h(
          "span",
          { class: "legend-item" },
          swatch,
          h("span", { class: "legend-name" }, line.name),
          h("span", { class: "legend-value" }, value === null || value === undefined ? "–" : this.#options.format(value)),
        );
      }),
      h(
        "span",
        { class: "legend-time" },
        this.#cursor === null || at === undefined ? "now" : `${clock(at * 1000)}${this.#missedAt(at)}`,
      ),
    );
  }

  #missedAt(at: number): string {
    const tenant = this.#shown.find((frame) => frame.t_ms / 1000 === at)?.tenant;
    const kept = tenant ? this.#options.kept?.(tenant) : undefined;
    return isBroken(kept) ? ` · ${this.#brokenText(kept)}` : "";
  }

  #brokenText({ missed, cause }: Kept): string {
    const format = this.#options.missedFormat ?? this.#options.format;
    const what = Number(missed) > 0 ? `missed ${format(Number(missed))}` : "late";
    return `${what}: ${cause ?? "cause unknown"}`;
  }

  #fillVerdict(): void {
    const kept = this.#options.kept;
    if (kept === undefined) return;
    const { seen, broken, by } = causes(this.#shown, this.#options.name, kept);
    this.#verdict.classList.toggle("is-broken", broken > 0);
    const text =
      seen === 0
        ? "Nothing measured yet"
        : broken === 0
          ? `Kept in all of ${seen} s`
          : `Broken in ${broken} of ${seen} s: ${by.map(([cause, n]) => `${n} × ${cause} (${causeText(cause)})`).join(", ")}`;
    if (this.#verdict.textContent !== text)
      replace(this.#verdict, h("span", { class: "verdict-mark", "aria-hidden": "true" }), text);
  }

  #table(): { heads: string[]; rows: string[][] } {
    const rows: string[][] = [];
    const frames = new Map(this.#shown.map((frame) => [frame.t_ms / 1000, frame]));
    for (let i = this.#rows.x.length - 1; i >= 0 && rows.length < 60; i -= 1) {
      const x = this.#rows.x[i] ?? 0;
      const tenant = frames.get(x)?.tenant;
      const kept = tenant ? this.#options.kept?.(tenant) : undefined;
      rows.push([
        clock(x * 1000),
        ...this.#rows.values.map((row) =>
          row[i] === null || row[i] === undefined ? "" : this.#options.format(row[i] as number),
        ),
        ...(this.#options.kept ? [isBroken(kept) ? this.#brokenText(kept) : ""] : []),
      ]);
    }
    return { heads: ["Time", ...this.#options.lines.map((line) => line.name), ...(this.#options.kept ? ["Broken"] : [])], rows };
  }
  #summary(): string {
    const i = this.#rows.x.length - 1;
    const now = this.#options.lines
      .map(
        (line, row) =>
          `${line.name} ${this.#rows.values[row]?.[i] == null ? "unknown" : this.#options.format(this.#rows.values[row]?.[i] as number)}`,
      )
      .join(", ");
    return `Now: ${now}. ${this.#verdict.textContent ?? ""}`;
  }
}
