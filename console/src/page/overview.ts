/** Who uses the machine now, what is promised, and every tenant in a table. */
import type { Frame } from "../api/types";
import { bandColour, bandName, pickedBand, ShareChart, type ShareOptions } from "../chart/bands";
import { IN_BYTES, IN_COUNTS, span } from "../chart/plot";
import { palette } from "../colour/theme";
import { append, h, setText, type Disposal } from "../dom";
import { bytes, clock, cores, count, NONE, seconds, whole } from "../format";
import { BAND_OTHERS, BAND_SYSTEM, BANDS, SYSTEM } from "../live/frames";
import { href } from "../router";
import { picked, places, server, stream, systemTenant } from "../store";
import { TenantTable } from "../table/tenants";

const CHART_PX = 190;

export function overviewPage(main: HTMLElement, disposal: Disposal): void {
  const charts = new LiveCharts(disposal, CHART_PX);
  const table = new TenantTable(disposal);
  append(main, [
    h("h1", { class: "visually-hidden" }, "Overview"),
    tiles(disposal),
    h("div", { class: "live" }, charts.grid, charts.who),
    table.element,
  ]);
  charts.start();
}

/** The charts of the machine with the list of who is in them. Also stands on the page of scenarios. */
export class LiveCharts {
  readonly #rest = h("div", { class: "chart-row" });
  readonly grid = h("div", { class: "chart-rows" });
  readonly who: HTMLElement;
  readonly #disposal: Disposal;
  readonly #height: number;
  readonly #cpu: ShareChart;
  readonly #memory: ShareChart;
  readonly #throughput: ShareChart;
  readonly #volumes = new Map<string, ShareChart>();
  readonly #rows: {
    button: HTMLButtonElement;
    row: HTMLElement;
    swatch: HTMLElement;
    name: HTMLElement;
    cells: HTMLElement[];
  }[] = [];
  readonly #time = h("span", { class: "who-time" }, "now");
  #cursor: number | null = null;

  constructor(disposal: Disposal, height: number) {
    this.#disposal = disposal;
    this.#height = height;
    this.#cpu = this.#share({
      title: "CPU",
      unit: "cores",
      form: "stacked",
      series: (frame) => frame.cpu,
      format: cores,
      tick: (value) => String(Number(value.toFixed(2))),
      splits: quarters,
      toCapacity: true,
    });
    this.#throughput = this.#share({
      title: "Throughput",
      unit: "statements/s",
      form: "lines",
      series: (frame) => frame.throughput,
      ...IN_COUNTS,
    });
    this.#memory = this.#share({
      title: "Memory",
      ...IN_BYTES,
      form: "stacked",
      series: (frame) => frame.memory,
    });
    this.#rest.append(this.#memory.chart.element);
    this.grid.append(h("div", { class: "chart-row" }, this.#cpu.chart.element, this.#throughput.chart.element), this.#rest);
    this.who = this.#makeWho();
  }

  start(): void {
    this.#disposal.add(stream.frames.watch((frames) => this.#set(frames)));
    for (const signal of [picked, places, palette])
      this.#disposal.add((signal as { watch(run: () => void): () => void }).watch(() => this.#fillWho()));
    this.#set(stream.frames.value);
    this.#fillWho();
  }

  #share(options: Omit<ShareOptions, "height" | "onCursor" | "onPick" | "onPickOther">): ShareChart {
    return new ShareChart(
      {
        ...options,
        height: this.#height,
        onPick: pickBand,
        onPickOther: pickOther,
        onCursor: (index) => {
          this.#cursor = index;
          this.#fillWho();
        },
      },
      this.#disposal,
    );
  }

  #set(frames: readonly Frame[]): void {
    const last = frames.at(-1);
    if (last === undefined) return;
    for (const { name } of last.volumes) {
      if (this.#volumes.has(name)) continue;
      const chart = this.#share({
        title: `I/O, ${name}`,
        unit: "IOPS",
        form: "stacked",
        series: (frame) => frame.volumes.find((volume) => volume.name === name),
        ...IN_COUNTS,
      });
      this.#volumes.set(name, chart);
      this.#rest.insertBefore(chart.chart.element, this.#memory.chart.element);
    }
    for (const chart of [this.#cpu, this.#throughput, this.#memory, ...this.#volumes.values()]) chart.set(frames);
    this.#fillWho();
  }

  #makeWho(): HTMLElement {
    const body = h("tbody");
    for (let band = BANDS - 1; band >= 0; band -= 1) {
      const swatch = h("i", { class: "swatch" });
      const name = h("span", { class: "who-name-text" });
      const button = h("button", { type: "button", class: "who-pick", onclick: () => pickBand(band) }, swatch, name);
      const cells = Array.from({ length: 4 }, () => h("td", { class: "figure" }));
      const row = h("tr", null, h("th", { scope: "row" }, button), ...cells);
      this.#rows[band] = { button, row, swatch, name, cells };
      body.append(row);
    }
    return h(
      "section",
      { class: "panel who", "aria-label": "Who uses how much" },
      h("div", { class: "panel-head" }, h("h2", null, "Who"), h("span", { class: "grow" }), this.#time),
      h(
        "table",
        { class: "table who-table" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, "Tenant"),
            ...["CPU", "IOPS", "Memory", "Stmt/s"].map((head) => h("th", { scope: "col", class: "figure" }, head)),
          ),
        ),
        body,
      ),
      h("p", { class: "who-hint" }, "Click a name, a band or a line to pick a tenant out. The triangles mark changes."),
    );
  }

  #fillWho(): void {
    const index = this.#cursor;
    const at = index === null ? null : this.#cpu.timeAt(index);
    setText(this.#time, at === null ? "now" : clock(at));
    const use = index !== null && at === null ? null : index;
    const [cpu, memory, throughput] = [this.#cpu.at(use), this.#memory.at(use), this.#throughput.at(use)];
    const volumes = [...this.#volumes.values()].map((chart) => chart.at(use));
    const lit = pickedBand();
    const frames = stream.frames.value;
    const frame = use === null ? frames.at(-1) : frames.find(({ t_ms }) => t_ms === Math.round(at ?? 0));
    // Whom the frame does not name is among its others: what it used is not known.
    const isNamed = (band: number): boolean => {
      if (band === BAND_OTHERS) return true;
      const named = places.value[band - 1]?.id;
      return frame?.tenants.some(([id, name]) => (band === BAND_SYSTEM ? name === SYSTEM : id === named)) ?? false;
    };
    this.#rows.forEach((row, band) => {
      const name = bandName(band);
      row.row.classList.toggle("is-empty", name === null);
      row.row.classList.toggle("is-picked", lit === band);
      row.row.classList.toggle("is-dim", lit !== null && lit !== band);
      row.button.disabled = name === null || band === BAND_OTHERS;
      row.button.setAttribute("aria-pressed", String(lit === band));
      row.swatch.style.setProperty("--swatch", name === null ? "transparent" : bandColour(band));
      setText(row.name, name ?? "–");
      const io = volumes.length === 0 ? null : volumes.reduce((sum, values) => sum + (values[band] ?? 0), 0);
      const known = isNamed(band);
      const texts = [
        known ? cores(cpu[band]) : NONE,
        known ? count(io === null ? null : Math.round(io)) : NONE,
        known ? bytes(memory[band]) : NONE,
        count(throughput[band] == null ? null : Math.round(throughput[band] as number)),
      ];
      texts.forEach((text, i) => setText(row.cells[i] as HTMLElement, name === null ? "" : text));
    });
  }
}

/** A core or two have halves, more of them whole ones. */
function quarters(top: number): number[] {
  return [0, 0.25, 0.5, 0.75, 1].map((part) => part * top);
}

function pickBand(band: number): void {
  if (band === BAND_OTHERS) return;
  const holder = band === BAND_SYSTEM ? systemTenant() : places.value[band - 1];
  if (!holder) return;
  picked.set(picked.value?.id === holder.id ? null : { id: holder.id, name: holder.name });
}

function pickOther(id: number): void {
  const name = stream.names.get(id);
  if (name !== undefined) picked.set({ id, name });
}

/** The figures of the whole server in a row. */
function tiles(disposal: Disposal): HTMLElement {
  const tile = (title: string, link?: string): { element: HTMLElement; value: HTMLElement; note: HTMLElement } => {
    const value = h("span", { class: "tile-value" }, "–");
    const note = h("span", { class: "tile-note" }, "\u00a0");
    const inside = [h("span", { class: "tile-title" }, title), value, note];
    return {
      value,
      note,
      element: link ? h("a", { class: "tile", href: link }, ...inside) : h("div", { class: "tile" }, ...inside),
    };
  };
  const cpu = tile("CPU");
  const throughput = tile("Throughput");
  const io = tile("I/O");
  const memory = tile("Memory");
  const sessions = tile("Sessions");
  const broken = tile("Broken promises", href({ page: "ledger", broken: true }));
  const policy = tile("Policy", href({ page: "manage" }));
  const spanChoice = h(
    "select",
    { class: "select-small", "aria-label": "Span of time in the charts" },
    ...[60, 300, 600].map((choice) =>
      h("option", { value: choice, selected: choice === span.seconds }, `last ${seconds(choice)}`),
    ),
  );
  spanChoice.addEventListener("change", () => {
    span.seconds = Number(spanChoice.value);
    stream.frames.tell();
  });
  const show = (): void => {
    const frame = stream.frames.value.at(-1);
    const now = server.value;
    if (frame) {
      const iops = frame.volumes.reduce((sum, volume) => sum + volume.total, 0);
      setText(
        cpu.value,
        frame.cpu.capacity ? `${Math.round((100 * frame.cpu.total) / frame.cpu.capacity)} %` : cores(frame.cpu.total),
      );
      setText(throughput.value, `${count(Math.round(frame.throughput.total))}/s`);
      setText(io.value, `${count(Math.round(iops))} IOPS`);
      setText(memory.value, bytes(frame.memory.total));
      setText(sessions.value, whole(frame.sessions));
      const parts = (
        [
          ["CPU", frame.broken.cpu],
          ["I/O", frame.broken.io],
          ["memory", frame.broken.memory],
          ["work memory", frame.broken.work_memory],
        ] as const
      ).filter(([, n]) => n > 0);
      const sum = parts.reduce((all, [, n]) => all + n, 0);
      setText(broken.value, sum === 0 ? "none" : `${sum}`);
      setText(broken.note, sum === 0 ? "in the last interval" : parts.map(([name, n]) => `${n} ${name}`).join(" · "));
      broken.element.classList.toggle("is-bad", sum > 0);
    }
    if (now) {
      setText(cpu.note, `${cores(now.promised.cpu)} cores promised`);
      setText(throughput.note, "of all tenants");
      setText(io.note, `${now.volumes.length} ${now.volumes.length === 1 ? "volume" : "volumes"}`);
      setText(memory.note, `${bytes(now.promised.memory_bytes)} promised`);
      setText(sessions.note, `${whole(now.tenants)} tenants`);
      setText(policy.value, now.policy.replace("_", " "));
      setText(policy.note, `overbooking: ${now.overbooking}`);
    }
  };
  disposal.add(stream.frames.watch(show));
  disposal.add(server.watch(show));
  show();
  return h(
    "section",
    { class: "tiles", "aria-label": "The server now" },
    cpu.element,
    throughput.element,
    io.element,
    memory.element,
    sessions.element,
    broken.element,
    policy.element,
    h("div", { class: "tiles-span" }, spanChoice),
  );
}
