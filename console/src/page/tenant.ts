/** A tenant: what it does, what it was promised and got, and why not. */
import type { TenantDetail } from "../api/types";
import { Chart, IN_BYTES, IN_COUNTS } from "../chart/plot";
import { TenantChart, type TenantChartOptions } from "../chart/promise";
import { palette } from "../colour/theme";
import { alterTenant, dropTenant, moveTenant } from "../dialog/change";
import { errorBox } from "../dialog/dialog";
import { append, h, replace, setText, type Disposal } from "../dom";
import { bytes, cores, count, millis, option, percent, seconds, whole } from "../format";
import { byteSplits, SYSTEM } from "../live/frames";
import { href, type Route } from "../router";
import { client, colourOf, isAdministrator, picked, places, stream } from "../store";
import { button, panel, table } from "./parts";
import { activity } from "./activity";
import { advisor } from "./advisor";

const CHART_PX = 170;
const REFRESH_MS = 5000;

/** What memory is missed in: the I/Os that it would have spared. */
const iosMissed = (value: number): string => `${count(Math.round(value))} I/Os`;

export function tenantPage(main: HTMLElement, disposal: Disposal, to: Route): void {
  const name = to.page === "tenant" ? to.name : "";
  const body = h("div", { class: "tenant" }, h("p", { class: "empty is-waiting" }, "Loading"));
  main.append(body);
  client.tenant(name).then(
    (detail) => {
      if (!disposal.signal.aborted) show(body, disposal, detail);
    },
    (error: unknown) => {
      if (!disposal.signal.aborted)
        replace(body, h("h1", null, name), errorBox(error), h("a", { class: "button", href: "#/" }, "To the overview"));
    },
  );
}

function show(body: HTMLElement, disposal: Disposal, first: TenantDetail): void {
  const { name, id } = first;
  let detail = first;
  picked.set({ id, name });
  const colour = (): string => colourOf(id) ?? palette.value.accent;
  const swatch = h("i", { class: "swatch swatch-large" });
  const paint = (): void => swatch.style.setProperty("--swatch", colour());
  paint();
  disposal.add(places.watch(paint));
  disposal.add(palette.watch(paint));

  const facts = h("dl", { class: "facts" });
  const optionsPanel = panel("Options in force");
  const curve = new CurveChart(disposal);
  const waits = panel("Waits since the server's start");
  const fill = (): void => {
    replace(
      facts,
      ...(
        [
          ["Size", detail.size ?? "none"],
          ["Home", detail.worker === null ? "–" : `worker ${detail.worker}`],
          ["State", detail.open ? "open" : "closed"],
          ["Sessions", whole(detail.sessions)],
          ["On disk", bytes(detail.disk_bytes)],
          ["Broken, last hour", whole(detail.broken_hour)],
        ] as const
      ).map(([term, text]) => h("div", null, h("dt", null, term), h("dd", null, text))),
    );
    const set = Object.entries(detail.options).filter(([, value]) => value !== null);
    replace(
      optionsPanel.body,
      h(
        "dl",
        { class: "options" },
        ...set.map(([key, value]) => h("div", null, h("dt", null, key), h("dd", null, option(value)))),
      ),
    );
    curve.set(detail);
    replace(
      waits.body,
      table(
        "Waits",
        [
          { head: "Wait", cell: (row) => row.wait },
          { head: "Time", figure: true, cell: (row) => seconds(row.seconds) },
          { head: "Count", figure: true, cell: (row) => whole(row.count) },
          { head: "Each", figure: true, cell: (row) => (row.count === 0 ? "–" : seconds(row.seconds / row.count)) },
        ],
        detail.waits,
        "Nothing waited for yet.",
      ),
    );
  };
  fill();
  const refresh = async (): Promise<void> => {
    try {
      detail = await client.tenant(name);
      if (!disposal.signal.aborted) fill();
    } catch {
      // The stream's state already says that the server is not there; a dropped tenant's page stays as it was.
    }
  };
  disposal.every(REFRESH_MS, () => !document.hidden && void refresh());
  disposal.add(stream.changed.watch((changed) => changed?.what === "tenants" && void refresh()));

  const month = new Date().toISOString().slice(0, 7);
  const actions = h(
    "div",
    { class: "actions" },
    h("a", { class: "button", href: href({ page: "ledger", tenant: name }) }, "Ledger"),
    h("a", { class: "button", href: href({ page: "statement", name, month }) }, "Statement"),
    ...(isAdministrator()
      ? [
          button("Alter", () => void alterTenant(name, detail.options, () => void refresh())),
          ...(name === SYSTEM
            ? []
            : [
                button("Move", () => moveTenant(name, detail.worker, () => void refresh())),
                button(
                  "Drop",
                  () =>
                    dropTenant(name, () => {
                      picked.set(null);
                      location.hash = "/";
                    }),
                  "button-danger-quiet",
                ),
              ]),
        ]
      : []),
  );

  const charts = h("div", { class: "chart-grid chart-grid-tenant" });
  const made: TenantChart[] = [];
  const add = (options: Omit<TenantChartOptions, "name" | "height" | "colour">): void => {
    const chart = new TenantChart({ name, height: CHART_PX, colour, ...options }, disposal);
    made.push(chart);
    charts.append(chart.element);
  };
  add({
    title: "Throughput",
    unit: "statements/s",
    ...IN_COUNTS,
    lines: [{ name: "statements", of: (frame) => frame.statements_per_s, look: "given" }],
  });
  add({
    title: "Latency",
    unit: "ms",
    format: millis,
    tick: (value) => String(Number(value.toPrecision(3))),
    lines: [
      { name: "p99", of: (frame) => frame.p99_ms, look: "plain" },
      { name: "p50", of: (frame) => frame.p50_ms, look: "second" },
    ],
  });
  add({
    title: "CPU",
    unit: "cores",
    format: cores,
    tick: (value) => String(Number(value.toPrecision(3))),
    kept: (frame) => frame.cpu,
    lines: [
      { name: "given", of: (frame) => frame.cpu.given, look: "given" },
      { name: "wanted", of: (frame) => frame.cpu.demanded, look: "demanded" },
      { name: "promised", of: (frame) => frame.cpu.promised, look: "promised" },
      { name: "at most", of: (frame) => frame.cpu.max, look: "limit" },
    ],
  });
  const volumes = new Set<string>();
  const update = (): void => {
    const frames = stream.frames.value;
    for (const io of frames.at(-1)?.tenant?.io ?? []) {
      if (volumes.has(io.volume)) continue;
      volumes.add(io.volume);
      const of = (frame: NonNullable<(typeof frames)[number]["tenant"]>) => frame.io.find((one) => one.volume === io.volume);
      add({
        title: `I/O of volume ${io.volume}`,
        unit: "IOPS",
        ...IN_COUNTS,
        kept: of,
        lines: [
          { name: "given", of: (frame) => of(frame)?.given, look: "given" },
          { name: "wanted", of: (frame) => of(frame)?.demanded, look: "demanded" },
          { name: "promised", of: (frame) => of(frame)?.promised, look: "promised" },
          { name: "at most", of: (frame) => of(frame)?.max, look: "limit" },
        ],
      });
      charts.append(...ofMemory);
    }
    for (const chart of made) chart.set(frames);
    const waiting = frames.at(-1)?.tenant?.waits;
    if (waiting)
      setText(
        nowWaits,
        `This second: ${
          Object.entries(waiting)
            .filter(([, value]) => value > 0.0005)
            .map(([wait, value]) => `${wait} ${seconds(value)}`)
            .join(" · ") || "nothing"
        }`,
      );
  };
  add({
    title: "Memory",
    ...IN_BYTES,
    kept: (frame) => frame.memory,
    missedFormat: iosMissed,
    lines: [
      { name: "resident", of: (frame) => frame.memory.resident_bytes, look: "given" },
      { name: "promised", of: (frame) => frame.memory.promised_bytes, look: "promised" },
      { name: "at most", of: (frame) => frame.memory.max_bytes, look: "limit" },
    ],
  });
  add({
    title: "Page I/O that memory spared",
    unit: "I/Os a second",
    ...IN_COUNTS,
    kept: (frame) => frame.memory,
    lines: [
      { name: "spared", of: (frame) => frame.memory.given, look: "given" },
      { name: "by what is promised", of: (frame) => frame.memory.demanded, look: "promised" },
    ],
  });
  add({
    title: "Working memory",
    ...IN_BYTES,
    kept: (frame) => frame.work_memory,
    missedFormat: iosMissed,
    lines: [
      { name: "used", of: (frame) => frame.work_memory.used_bytes, look: "given" },
      { name: "promised", of: (frame) => frame.work_memory.promised_bytes, look: "promised" },
    ],
  });
  const ofMemory = made.slice(-3).map((chart) => chart.element);
  const nowWaits = h("p", { class: "waits-now" }, "\u00a0");
  waits.element.append(nowWaits);
  disposal.add(stream.frames.watch(update));
  update();

  const { running, statements, locks } = activity(name, disposal);
  replace(
    body,
    h(
      "header",
      { class: "page-head" },
      h("a", { class: "crumb", href: "#/" }, "Overview"),
      h("h1", null, swatch, name),
      facts,
      h("span", { class: "grow" }),
      actions,
    ),
    charts,
  );
  append(body, [
    h(
      "div",
      { class: "panels" },
      running,
      statements,
      h("div", { class: "panels-row" }, locks, waits.element),
      advisor(name, disposal, () => detail),
      h("div", { class: "panels-row" }, curve.element, optionsPanel.element),
    ),
  ]);
}

/** Which share of page uses a cache of so many bytes answers. */
class CurveChart {
  readonly element: HTMLElement;
  readonly #chart: Chart;
  readonly #note = h("p", { class: "chart-verdict" });
  #detail: TenantDetail | null = null;

  constructor(disposal: Disposal) {
    const points = (): TenantDetail["cache_curve"] => this.#detail?.cache_curve ?? [];
    this.#chart = new Chart(
      {
        title: "Cache-size curve",
        unit: "% of page uses found in memory",
        height: CHART_PX,
        top: () => 100,
        splits: () => [0, 25, 50, 75, 100],
        tick: (value) => String(value),
        x: {
          tick: bytes,
          range: () => [0, Math.max(1, ...points().map((point) => point.bytes), this.#detail?.memory_promised_bytes ?? 0)],
          splits: ([, max]) => byteSplits(max),
          label: "bytes",
        },
        series: [
          {
            width: 2,
            stroke: () => palette.value.accent,
            points: { show: true, size: 5, fill: () => palette.value.surface, stroke: () => palette.value.accent },
          },
        ],
        hooks: { draw: [(u) => this.#drawPresent(u)] },
        table: () => ({
          heads: ["Memory", "Found in memory"],
          rows: points().map((point) => [bytes(point.bytes), percent(point.hit_ratio)]),
        }),
        summary: () => this.#note.textContent ?? "",
      },
      disposal,
    );
    this.element = h("section", { class: "panel panel-chart", "aria-label": "Cache-size curve" }, this.#chart.element);
    this.#chart.element.append(this.#note);
    disposal.add(picked.watch(() => this.#chart.redraw()));
  }

  set(detail: TenantDetail): void {
    this.#detail = detail;
    const points = detail.cache_curve;
    setText(
      this.#note,
      points.length === 0
        ? "No curve: memory is promised to few, or too few pages were used since."
        : `The line marks what is promised: ${bytes(detail.memory_promised_bytes)}. Resident now: ${bytes(detail.memory_bytes)}.`,
    );
    this.#chart.set({ x: points.map((point) => point.bytes), values: [points.map((point) => 100 * point.hit_ratio)] }, 0);
  }

  #drawPresent(u: import("uplot")): void {
    const promised = this.#detail?.memory_promised_bytes;
    if (!promised) return;
    const x = Math.round(u.valToPos(promised, "x", true)) + 0.5;
    const { ctx, bbox } = u;
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = palette.value.ink;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }
}
