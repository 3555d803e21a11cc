/**
 * The table of tenants. However many there are, the document holds the rows in view and a few around them; the rest are fetched in pieces when they are scrolled to.
 * What is in view is fetched again every two seconds, but not while it is being scrolled.
 */
import { ApiError } from "../api/client";
import type { Order, Tenant, TenantColumn } from "../api/types";
import { h, icon, replace, setText, type Disposal } from "../dom";
import { whole } from "../format";
import { href } from "../router";
import { client, colourOf, picked, places, stream } from "../store";
import { palette } from "../colour/theme";
import { COLUMNS, TABLE_WIDTH } from "./columns";
import { PAGE_ROWS, RowWindow } from "./window";

const ROW_PX = 30;
const BEYOND = 8;
const REFRESH_MS = 2000;
const FETCH_MS = 100;

interface RowElements {
  root: HTMLElement;
  swatch: HTMLButtonElement;
  link: HTMLAnchorElement;
  cells: HTMLElement[];
  meters: (HTMLElement | null)[];
  index: number;
  /** What it shows, so that a row that shows the same is left alone: while one scrolls, that is most of them. */
  shown: { tenant: Tenant | undefined; isActive: boolean; isPicked: boolean; colour: string | null };
}

export class TenantTable {
  readonly element: HTMLElement;
  readonly #scroller: HTMLElement;
  readonly #body: HTMLElement;
  readonly #count: HTMLElement;
  readonly #message: HTMLElement;
  readonly #heads = new Map<TenantColumn, HTMLElement>();
  readonly #rows: RowElements[] = [];
  readonly #window = new RowWindow<Tenant>();
  readonly #loading = new Set<number>();
  #request = new AbortController();
  #search = "";
  #sort: TenantColumn = "cpu";
  #order: Order = "desc";
  #active = 0;
  #total = 0;
  #scrolled_ms = 0;
  #frame = 0;
  #asked_ms = -Infinity;
  #later: ReturnType<typeof setTimeout> | undefined;
  #said: string | null = null;

  constructor(disposal: Disposal) {
    const search = h("input", {
      type: "search",
      class: "search",
      placeholder: "Search tenants",
      "aria-label": "Search tenants",
      autocomplete: "off",
      spellcheck: "false",
    });
    let typing: ReturnType<typeof setTimeout> | undefined;
    search.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => this.#restart(search.value.trim(), this.#sort, this.#order), 150);
    });
    this.#count = h("span", { class: "table-count", role: "status" });
    const heads = COLUMNS.map((column, i) => {
      const button = h(
        "button",
        { type: "button", class: "head-button", onclick: () => this.#sortBy(column.key) },
        h("span", { class: "head-group" }, column.group || "\u00a0"),
        h("span", { class: "head-label" }, column.label, h("span", { class: "head-order", "aria-hidden": "true" })),
      );
      const head = h(
        "div",
        {
          role: "columnheader",
          class: `cell head ${i < 2 ? "cell-text" : "cell-figure"} ${i === 0 ? "cell-name" : ""}`,
          "aria-sort": "none",
          "aria-colindex": i + 1,
        },
        button,
      );
      this.#heads.set(column.key, head);
      return head;
    });
    const headRow = h("div", { role: "row", class: "row row-head", "aria-rowindex": "1" }, ...heads);
    this.#body = h("div", { role: "rowgroup", class: "table-body" });
    this.#message = h("div", { class: "table-message", hidden: true });
    this.#scroller = h(
      "div",
      {
        class: "table-scroller",
        role: "grid",
        tabindex: "0",
        "aria-label": "Tenants",
        "aria-describedby": "tenants-keys",
        "aria-rowcount": "1",
        "aria-colcount": COLUMNS.length,
      },
      h("div", { role: "rowgroup", class: "table-heads" }, headRow),
      this.#body,
    );
    const columns = COLUMNS.map((column, i) => (i === 0 ? "var(--name-width)" : `${column.width}px`)).join(" ");
    this.#scroller.style.setProperty("--columns", columns);
    this.#scroller.style.setProperty("--table-width", `${TABLE_WIDTH}px`);
    this.element = h(
      "section",
      { class: "panel tenants", "aria-label": "Tenants" },
      h(
        "div",
        { class: "panel-head" },
        h("h2", null, "Tenants"),
        this.#count,
        h("span", { class: "grow" }),
        h("label", { class: "search-box" }, icon("search"), search),
      ),
      h(
        "p",
        { id: "tenants-keys", class: "visually-hidden" },
        "Arrow keys move between tenants, Enter opens one, the space bar picks one out in all charts.",
      ),
      h("div", { class: "table-frame" }, this.#scroller, this.#message),
    );

    this.#scroller.addEventListener(
      "scroll",
      () => {
        this.#scrolled_ms = performance.now();
        this.#schedule();
      },
      { passive: true },
    );
    this.#scroller.addEventListener("keydown", (event) => this.#key(event));
    const observer = new ResizeObserver(() => this.#schedule());
    observer.observe(this.#scroller);
    disposal.add(() => observer.disconnect());
    disposal.add(() => cancelAnimationFrame(this.#frame));
    disposal.add(() => this.#request.abort());
    disposal.add(() => clearTimeout(this.#later));
    disposal.every(REFRESH_MS, () => this.#refresh());
    for (const signal of [picked, places, palette])
      disposal.add((signal as { watch(run: () => void): () => void }).watch(() => this.#schedule()));
    disposal.add(
      stream.changed.watch((changed) => {
        if (changed?.what === "tenants" || changed?.what === "sizes") this.#refresh(true);
      }),
    );
    this.#restart("", this.#sort, this.#order);
  }

  #sortBy(key: TenantColumn): void {
    const first: Order = COLUMNS.find((column) => column.key === key)?.descending ? "desc" : "asc";
    const order = this.#sort !== key ? first : this.#order === "asc" ? "desc" : "asc";
    this.#restart(this.#search, key, order);
  }

  #restart(search: string, sort: TenantColumn, order: Order): void {
    [this.#search, this.#sort, this.#order] = [search, sort, order];
    this.#request.abort();
    this.#request = new AbortController();
    this.#loading.clear();
    this.#window.clear();
    this.#asked_ms = -Infinity;
    this.#active = 0;
    this.#scroller.scrollTop = 0;
    for (const [key, head] of this.#heads)
      head.setAttribute("aria-sort", key !== sort ? "none" : order === "asc" ? "ascending" : "descending");
    this.#schedule();
  }

  #range(): [from: number, to: number] {
    const from = Math.max(0, Math.floor(this.#scroller.scrollTop / ROW_PX) - BEYOND);
    const to = Math.ceil((this.#scroller.scrollTop + this.#scroller.clientHeight) / ROW_PX) + BEYOND;
    return [from, Math.min(to, this.#window.matched ?? to)];
  }

  #schedule(): void {
    if (this.#frame !== 0) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      // Before anything is written: it reads where the list stands, and the browser would have to lay it out for that.
      this.#fetchAbsent();
      this.#draw();
    });
  }

  /** What is in view and not here; while it is scrolled, not for each frame, so that what only flies by is not asked for. */
  #fetchAbsent(): void {
    const wait_ms = this.#asked_ms + FETCH_MS - performance.now();
    clearTimeout(this.#later);
    if (wait_ms > 0) {
      this.#later = setTimeout(() => this.#fetchAbsent(), wait_ms);
      return;
    }
    const [from, to] = this.#range();
    const absent = this.#window.pages(from, to, "absent");
    if (absent.length > 0) this.#asked_ms = performance.now();
    for (const page of absent) void this.#fetch(page);
  }

  #refresh(now = false): void {
    if (document.hidden || (!now && performance.now() - this.#scrolled_ms < 400)) return;
    const [from, to] = this.#range();
    this.#window.keepOnly(from, to);
    for (const page of this.#window.pages(from, to, "all")) void this.#fetch(page);
  }

  async #fetch(page: number): Promise<void> {
    if (this.#loading.has(page)) return;
    this.#loading.add(page);
    const request = this.#request;
    try {
      const { total, matched, rows } = await client.tenants(
        { search: this.#search, sort: this.#sort, order: this.#order, offset: page * PAGE_ROWS, limit: PAGE_ROWS },
        request.signal,
      );
      if (request.signal.aborted) return;
      this.#total = total;
      this.#window.put(page, rows, matched);
      this.#say(
        matched === 0
          ? this.#search === ""
            ? "There is no tenant yet. Create one under Manage."
            : `No tenant's name contains “${this.#search}”.`
          : null,
      );
    } catch (error) {
      if (request.signal.aborted) return;
      if (this.#window.matched === null) this.#say(error instanceof ApiError ? error.message : String(error), true);
    } finally {
      if (request === this.#request) this.#loading.delete(page);
    }
    this.#schedule();
  }

  #say(text: string | null, again = false): void {
    if (text === this.#said) return;
    this.#said = text;
    this.#message.hidden = text === null;
    replace(
      this.#message,
      text === null ? null : h("p", null, text),
      again &&
        h(
          "button",
          { type: "button", class: "button", onclick: () => this.#restart(this.#search, this.#sort, this.#order) },
          "Try again",
        ),
    );
  }

  #draw(): void {
    const [from, to] = this.#range();
    const matched = this.#window.matched;
    const height = (matched ?? Math.ceil(this.#scroller.clientHeight / ROW_PX)) * ROW_PX;
    this.#body.style.height = `${height}px`;
    // A few tenants take the room of a few.
    if (matched !== null) this.#scroller.style.setProperty("--rows", String(matched));
    this.#scroller.setAttribute("aria-rowcount", matched === null ? "-1" : String(matched + 1));
    setText(
      this.#count,
      matched === null ? "" : this.#search === "" ? whole(matched) : `${whole(matched)} of ${whole(this.#total)}`,
    );
    const shown = Math.max(0, to - from);
    while (this.#rows.length < shown) this.#rows.push(this.#makeRow());
    // A row of the document shows the same tenant's place while it stays in view: index modulo the number of rows.
    const n = this.#rows.length;
    const needed = new Set<RowElements>();
    for (let index = from; index < to; index += 1) {
      const row = this.#rows[index % n] as RowElements;
      needed.add(row);
      this.#fillRow(row, index);
    }
    for (const row of this.#rows) row.root.hidden = !needed.has(row);
    const active = this.#active >= from && this.#active < to ? this.#rows[this.#active % n] : undefined;
    if (active) this.#scroller.setAttribute("aria-activedescendant", active.root.id);
    else this.#scroller.removeAttribute("aria-activedescendant");
  }

  #makeRow(): RowElements {
    const row: RowElements = {
      root: h("div", { role: "row", class: "row", id: `tenant-row-${this.#rows.length}` }),
      swatch: h("button", { type: "button", class: "swatch-button", tabindex: "-1" }, h("i", { class: "swatch" })),
      link: h("a", { class: "tenant-link", tabindex: "-1" }),
      cells: [],
      meters: [],
      index: -1,
      shown: { tenant: undefined, isActive: false, isPicked: false, colour: null },
    };
    COLUMNS.forEach((column, i) => {
      const text = h("span", { class: "cell-value" });
      const meter = column.meter ? h("i", { class: "meter", "aria-hidden": "true" }) : null;
      const cell = h(
        "div",
        {
          role: "gridcell",
          class: `cell ${i < 2 ? "cell-text" : "cell-figure"} ${i === 0 ? "cell-name" : ""} cell-${column.key}`,
          "aria-colindex": i + 1,
        },
        ...(i === 0 ? [row.swatch, row.link] : [text, meter]),
      );
      row.cells.push(i === 0 ? row.link : text);
      row.meters.push(meter);
      row.root.append(cell);
    });
    row.swatch.addEventListener("click", (event) => {
      event.stopPropagation();
      this.#pick(row.index);
    });
    row.root.addEventListener("click", () => {
      this.#active = row.index;
      this.#schedule();
    });
    this.#body.append(row.root);
    return row;
  }

  #fillRow(row: RowElements, index: number): void {
    const tenant = this.#window.row(index);
    const isActive = index === this.#active;
    const isPicked = tenant !== undefined && picked.value?.id === tenant.id;
    const colour = tenant === undefined ? null : colourOf(tenant.id);
    const { index: at, shown } = row;
    if (
      at === index &&
      shown.tenant === tenant &&
      shown.isActive === isActive &&
      shown.isPicked === isPicked &&
      shown.colour === colour
    )
      return;
    row.shown = { tenant, isActive, isPicked, colour };
    if (at !== index) {
      row.index = index;
      row.root.style.transform = `translateY(${index * ROW_PX}px)`;
      row.root.setAttribute("aria-rowindex", String(index + 2));
    }
    row.root.classList.toggle("is-loading", tenant === undefined);
    row.root.classList.toggle("is-active", isActive);
    row.root.classList.toggle("is-picked", isPicked);
    row.root.setAttribute("aria-selected", String(isPicked));
    if (tenant === undefined) {
      for (const cell of row.cells) setText(cell, "");
      for (const meter of row.meters) meter?.style.setProperty("--fill", "0");
      row.link.removeAttribute("href");
      row.swatch.hidden = true;
      return;
    }
    row.swatch.hidden = false;
    row.swatch.style.setProperty("--swatch", colour ?? "transparent");
    row.swatch.classList.toggle("is-plain", colour === null);
    const label = isPicked ? `${tenant.name} is picked out; put it back` : `Pick out ${tenant.name}`;
    row.swatch.title = label;
    row.swatch.setAttribute("aria-label", label);
    row.link.setAttribute("href", href({ page: "tenant", name: tenant.name }));
    row.root.classList.toggle("has-broken", (tenant.broken_hour ?? 0) > 0);
    COLUMNS.forEach((column, i) => {
      setText(row.cells[i] as HTMLElement, column.text(tenant));
      row.meters[i]?.style.setProperty("--fill", String(column.meter?.(tenant) ?? 0));
    });
  }

  #pick(index: number): void {
    const tenant = this.#window.row(index);
    if (tenant === undefined) return;
    picked.set(picked.value?.id === tenant.id ? null : { id: tenant.id, name: tenant.name });
  }

  #key(event: KeyboardEvent): void {
    if (event.target !== this.#scroller) return;
    const page = Math.max(1, Math.floor(this.#scroller.clientHeight / ROW_PX) - 2);
    const last = (this.#window.matched ?? 1) - 1;
    const steps: Record<string, number> = {
      ArrowDown: this.#active + 1,
      ArrowUp: this.#active - 1,
      PageDown: this.#active + page,
      PageUp: this.#active - page,
      Home: 0,
      End: last,
    };
    const to = steps[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.#active = Math.min(last, Math.max(0, to));
      this.#reveal();
      this.#schedule();
    } else if (event.key === "Enter") {
      const tenant = this.#window.row(this.#active);
      if (tenant) location.hash = href({ page: "tenant", name: tenant.name }).slice(1);
    } else if (event.key === " ") {
      event.preventDefault();
      this.#pick(this.#active);
    }
  }

  #reveal(): void {
    const head = this.#scroller.querySelector<HTMLElement>(".table-heads")?.offsetHeight ?? 0;
    const top = this.#active * ROW_PX;
    const view = this.#scroller.clientHeight - head;
    if (top < this.#scroller.scrollTop) this.#scroller.scrollTop = top;
    else if (top + ROW_PX > this.#scroller.scrollTop + view) this.#scroller.scrollTop = top + ROW_PX - view;
  }
}
