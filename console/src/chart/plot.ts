/**
 * A chart on the page: caption, the plot in a box of fixed size, and the same figures as a table for who cannot see or does not want the drawing. All live charts
 * have the same span of time and share the cursor.
 */
import uPlot from "uplot";
import { palette } from "../colour/theme";
import { h, icon, replace, setText, type Disposal } from "../dom";
import { bytes, clock, count } from "../format";
import { byteSplits, countSplits, niceBytes, niceCount } from "../live/frames";
import { scrolling } from "../scrolling";
import { marks } from "../store";

export type Rows = (number | null)[][];

/** What charts of bytes have in common. */
export const IN_BYTES = { unit: "bytes", format: bytes, ceiling: niceBytes, splits: byteSplits } as const;

/** What charts of things that are counted have in common. */
export const IN_COUNTS = {
  format: (value: number): string => count(Math.round(value)),
  ceiling: niceCount,
  splits: countSplits,
} as const;

export interface ChartOptions {
  title: string;
  /** Written above the axis and in the caption; the first word of it is enough above the axis. */
  unit: string;
  height: number;
  series: uPlot.Series[];
  bands?: uPlot.Band[];
  /** The y axis: from 0 to this. */
  top: () => number;
  splits?: (top: number) => number[];
  tick: (value: number) => string;
  /** Time is the x axis if absent. */
  x?: {
    tick: (value: number) => string;
    range: () => [number, number];
    splits?: (range: [number, number]) => number[];
    label: string;
  };
  hooks?: uPlot.Hooks.Arrays;
  /** Rows of the table: heads, then cells, newest first. */
  table: () => { heads: string[]; rows: string[][] };
  /** One sentence with what the chart shows now. */
  summary: () => string;
  onCursor?: (index: number | null) => void;
  onClick?: (index: number, value: number) => void;
}

/** Seconds of time shown. */
export const span = { seconds: 300 };
const AXIS_X = 26;
const AXIS_Y = 56;
const FONT = '11px "Helvetica Neue", "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';

export class Chart {
  readonly element: HTMLElement;
  readonly #figure: HTMLElement;
  readonly #box: HTMLElement;
  readonly #tableBox: HTMLElement;
  readonly #now: HTMLElement;
  readonly #plot: uPlot;
  readonly #options: ChartOptions;
  #now_s = 0;
  #tabular = false;
  /** Charts that nobody sees are not drawn, nor those in view while one scrolls: they make up for it afterwards. */
  #inView = true;
  #pending: uPlot.AlignedData | null = null;
  #summed_ms = 0;

  constructor(options: ChartOptions, disposal: Disposal) {
    this.#options = options;
    this.#now = h("span", { class: "chart-now" });
    this.#box = h("div", { class: "chart-box", role: "img", "aria-label": options.title });
    this.#box.style.height = `${options.height}px`;
    this.#tableBox = h("div", {
      class: "chart-table",
      tabindex: "0",
      role: "group",
      "aria-label": `${options.title}, as a table`,
    });
    this.#tableBox.style.height = `${options.height}px`;
    this.#tableBox.hidden = true;
    const toggle = h(
      "button",
      {
        class: "button-icon",
        type: "button",
        "aria-pressed": "false",
        title: "Show as a table",
        "aria-label": `${options.title}: show as a table`,
      },
      icon("table"),
    );
    toggle.addEventListener("click", () => {
      this.#tabular = !this.#tabular;
      toggle.setAttribute("aria-pressed", String(this.#tabular));
      this.#box.hidden = this.#tabular;
      this.#tableBox.hidden = !this.#tabular;
      this.#fillTable();
    });
    this.#figure = h(
      "figure",
      { class: "chart" },
      h("figcaption", { class: "chart-head" }, h("span", { class: "chart-title" }, options.title), this.#now, toggle),
      this.#box,
      this.#tableBox,
    );
    this.element = this.#figure;
    this.#plot = this.#make();
    const observer = new ResizeObserver(() => this.#resize());
    observer.observe(this.#box);
    disposal.add(() => observer.disconnect());
    const inView = new IntersectionObserver(
      (entries) => {
        this.#inView = entries.at(-1)?.isIntersecting ?? true;
        if (this.#inView) this.#draw();
      },
      { rootMargin: "100px" },
    );
    inView.observe(this.#figure);
    disposal.add(() => inView.disconnect());
    disposal.add(
      scrolling.watch((now) => {
        if (!now && this.#inView) this.#draw();
      }),
    );
    disposal.add(palette.watch(() => this.#plot.redraw()));
    disposal.add(marks.watch(() => this.#plot.redraw(false)));
    disposal.add(() => this.#plot.destroy());
  }

  /** `now_s` is the right end of the axis of time. */
  set(data: { x: number[]; values: Rows }, now_s: number): void {
    this.#now_s = now_s;
    this.#pending = [data.x, ...data.values] as uPlot.AlignedData;
    if (this.#inView && !scrolling.value) this.#draw();
    const ms = Date.now();
    // A screen reader's description changes at the pace at which one can be read.
    if (ms - this.#summed_ms > 5000) {
      this.#summed_ms = ms;
      this.#box.setAttribute("aria-label", `${this.#options.title}, in ${this.#options.unit}. ${this.#options.summary()}`);
    }
    if (this.#tabular) this.#fillTable();
  }

  #draw(): void {
    if (this.#pending === null) return;
    this.#plot.setData(this.#pending);
    this.#pending = null;
  }

  /** What stands in the caption beside the title: the present figure. */
  caption(text: string): void {
    setText(this.#now, text);
  }
  redraw(): void {
    this.#plot.redraw();
  }

  #fillTable(): void {
    if (!this.#tabular) return;
    const { heads, rows } = this.#options.table();
    replace(
      this.#tableBox,
      h(
        "table",
        { class: "table table-compact" },
        h("caption", { class: "visually-hidden" }, `${this.#options.title}, in ${this.#options.unit}`),
        h("thead", null, h("tr", null, ...heads.map((head) => h("th", { scope: "col" }, head)))),
        h(
          "tbody",
          null,
          ...rows.map((row) =>
            h("tr", null, ...row.map((cell, i) => (i === 0 ? h("th", { scope: "row" }, cell) : h("td", null, cell)))),
          ),
        ),
      ),
    );
  }

  #resize(): void {
    const { clientWidth, clientHeight } = this.#box;
    if (clientWidth > 0 && clientHeight > 0 && (clientWidth !== this.#plot.width || clientHeight !== this.#plot.height))
      this.#plot.setSize({ width: clientWidth, height: clientHeight });
  }

  #make(): uPlot {
    const options = this.#options;
    const isTime = options.x === undefined;
    const axis: uPlot.Axis = {
      font: FONT,
      stroke: () => palette.value.muted,
      gap: 4,
      grid: { stroke: () => palette.value.line, width: 1 },
      ticks: { show: false },
    };
    const splits = options.splits;
    const plot = new uPlot(
      {
        width: 320,
        height: options.height,
        padding: [22, 14, 0, 0],
        legend: { show: false },
        ...(isTime ? {} : { ms: 1 as const }),
        scales: {
          x: { time: isTime, range: () => options.x?.range() ?? [this.#now_s - span.seconds, this.#now_s] },
          y: { range: () => [0, options.top()] },
        },
        axes: [
          {
            ...axis,
            size: AXIS_X,
            space: 70,
            grid: { show: false },
            values: (_, at) =>
              at.map((value) => (options.x ? options.x.tick(value) : clock(value * 1000).slice(0, span.seconds > 120 ? 5 : 8))),
            ...(options.x?.splits ? { splits: () => options.x?.splits?.(options.x.range()) ?? [] } : {}),
            ...(isTime ? { incrs: [10, 15, 30, 60, 120] } : {}),
          },
          {
            ...axis,
            size: AXIS_Y,
            space: 34,
            values: (_, at) => at.map((value) => options.tick(value)),
            ...(splits ? { splits: () => splits(options.top()) } : {}),
          },
        ],
        series: [{}, ...options.series],
        ...(options.bands ? { bands: options.bands } : {}),
        cursor: {
          y: false,
          drag: { setScale: false, x: false, y: false },
          points: { show: false },
          ...(isTime ? { sync: { key: "time" } } : {}),
        },
        hooks: {
          ...options.hooks,
          draw: [...(options.hooks?.draw ?? []), (u) => drawUnit(u, options.unit), ...(isTime ? [drawMarks] : [])],
          setCursor: [(u) => options.onCursor?.(u.cursor.idx ?? null)],
        },
      },
      [[], ...options.series.map(() => [])] as uPlot.AlignedData,
      this.#box,
    );
    if (options.onClick) {
      plot.over.addEventListener("click", (event) => {
        const index = plot.cursor.idx;
        if (index !== null && index !== undefined) options.onClick?.(index, plot.posToVal(event.offsetY, "y"));
      });
    }
    return plot;
  }
}

/** The axis's unit, above it. */
function drawUnit(u: uPlot, unit: string): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.font = FONT.replace("11px", `${11 * uPlot.pxRatio}px`);
  ctx.fillStyle = palette.value.muted;
  ctx.textAlign = "left";
  ctx.textBaseline = "bottom";
  ctx.fillText(unit, bbox.left, bbox.top - 5 * uPlot.pxRatio);
  ctx.restore();
}

/** A line with a flag where something was changed. */
function drawMarks(u: uPlot): void {
  const { ctx, bbox } = u;
  const [min, max] = [u.scales["x"]?.min, u.scales["x"]?.max];
  if (min == null || max == null) return;
  ctx.save();
  ctx.strokeStyle = palette.value.accent;
  ctx.fillStyle = palette.value.accent;
  ctx.lineWidth = uPlot.pxRatio;
  ctx.setLineDash([3 * uPlot.pxRatio, 3 * uPlot.pxRatio]);
  for (const { t_ms } of marks.value) {
    const at = t_ms / 1000;
    if (at < min || at > max) continue;
    const x = Math.round(u.valToPos(at, "x", true)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x + 6 * uPlot.pxRatio, bbox.top + 3.5 * uPlot.pxRatio);
    ctx.lineTo(x, bbox.top + 7 * uPlot.pxRatio);
    ctx.fill();
  }
  ctx.restore();
}

/** `#rrggbb` with an opacity from 0 to 1. */
export function faded(colour: string, opacity: number): string {
  return colour.startsWith("#")
    ? `${colour.slice(0, 7)}${Math.round(opacity * 255)
        .toString(16)
        .padStart(2, "0")}`
    : colour;
}
