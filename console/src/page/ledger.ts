/** The ledger: every metering interval in which a tenant used or wanted something, by filter, page by page, and as CSV. */
import type { LedgerFilter, LedgerRow } from "../api/types";
import { causeText } from "../chart/promise";
import { palette } from "../colour/theme";
import { errorBox } from "../dialog/dialog";
import { field } from "../dialog/options";
import { append, h, icon, redraw, replace, type Disposal } from "../dom";
import { clock, instant, ledgerFigure, ledgerUnit, NONE, seconds, whole } from "../format";
import { href, type Route } from "../router";
import { client, colourOf, idOfName, places } from "../store";
import { table } from "./parts";

const PAGE_ROWS = 100;

export function ledgerPage(main: HTMLElement, disposal: Disposal, to: Route): void {
  const wanted = to.page === "ledger" ? to : { page: "ledger" as const };
  const select = (name: string, choices: readonly (readonly [string, string])[], chosen = ""): HTMLSelectElement =>
    h("select", { name }, ...choices.map(([value, label]) => h("option", { value, selected: value === chosen }, label)));
  const tenant = h("input", {
    name: "tenant",
    value: wanted.tenant ?? "",
    placeholder: "all",
    autocomplete: "off",
    spellcheck: "false",
  });
  const resource = select("resource", [
    ["", "all"],
    ["cpu", "CPU"],
    ["io", "I/O"],
    ["memory", "memory"],
    ["work_memory", "work memory"],
  ]);
  const cause = select("cause", [
    ["", "all"],
    ["overbooked", "overbooked"],
    ["device", "device"],
    ["system", "system"],
    ["neighbour", "neighbour"],
  ]);
  const broken = select(
    "broken",
    [
      ["", "all"],
      ["true", "broken"],
      ["false", "kept"],
    ],
    wanted.broken ? "true" : "",
  );
  const granularity = select("granularity", [
    ["interval", "interval (last hour)"],
    ["minute", "minute (62 days)"],
  ]);
  const from = h("input", { name: "from", type: "datetime-local", step: "1" });
  const until = h("input", { name: "until", type: "datetime-local", step: "1" });
  const statementMonth = h("input", {
    type: "month",
    "aria-label": "Month of the statement",
    value: new Date().toISOString().slice(0, 7),
  });
  const statement = h("a", { class: "button", role: "link" }, icon("print"), "Statement");
  const csv = h("a", { class: "button", download: "ledger.csv" }, icon("download"), "CSV");
  const form = h(
    "form",
    { class: "filters", role: "search", "aria-label": "Filter of the ledger" },
    field("Tenant", tenant),
    field("Resource", resource),
    field("Promise", broken),
    field("Cause", cause),
    field("From", from),
    field("Until", until),
    field("By", granularity),
  );
  const body = h("div", { class: "panel-body" });
  const pager = h("div", { class: "pager" });
  let offset = 0;
  let request = new AbortController();

  const filter = (): LedgerFilter => {
    const time = (input: HTMLInputElement): number | undefined =>
      input.value === "" ? undefined : new Date(input.value).getTime();
    const [from_ms, to_ms] = [time(from), time(until)];
    return {
      granularity: granularity.value as "interval" | "minute",
      ...(tenant.value.trim() === "" ? {} : { tenant: tenant.value.trim() }),
      ...(resource.value === "" ? {} : { resource: resource.value }),
      ...(cause.value === "" ? {} : { cause: cause.value }),
      ...(broken.value === "" ? {} : { broken: broken.value === "true" }),
      ...(from_ms === undefined ? {} : { from_ms }),
      ...(to_ms === undefined ? {} : { to_ms }),
    };
  };
  const load = async (): Promise<void> => {
    request.abort();
    request = new AbortController();
    const mine = request;
    csv.href = client.ledgerCsv(filter());
    const name = tenant.value.trim();
    if (name === "") statement.setAttribute("aria-disabled", "true");
    else statement.removeAttribute("aria-disabled");
    statement.title = name === "" ? "Name a tenant in the filter first" : `Kept and broken promises of ${name}`;
    if (name === "") statement.removeAttribute("href");
    else statement.href = href({ page: "statement", name, month: statementMonth.value });
    body.classList.add("is-waiting");
    try {
      const { total, rows } = await client.ledger({ ...filter(), offset, limit: PAGE_ROWS }, mine.signal);
      if (mine.signal.aborted || disposal.signal.aborted) return;
      redraw(body, ledgerTable(rows, granularity.value === "minute"));
      const last = Math.min(offset + PAGE_ROWS, total);
      const step = (to: number, label: string, enabled: boolean): HTMLButtonElement =>
        h(
          "button",
          {
            type: "button",
            class: "button button-small",
            disabled: !enabled,
            onclick: () => {
              offset = to;
              void load();
            },
          },
          label,
        );
      redraw(
        pager,
        step(0, "Newest", offset > 0),
        step(Math.max(0, offset - PAGE_ROWS), "Newer", offset > 0),
        h(
          "span",
          { class: "pager-text", role: "status" },
          total === 0 ? "none" : `${whole(offset + 1)} to ${whole(last)} of ${whole(total)}`,
        ),
        step(offset + PAGE_ROWS, "Older", last < total),
      );
    } catch (error) {
      if (mine.signal.aborted || disposal.signal.aborted) return;
      replace(body, errorBox(error));
      replace(pager);
    } finally {
      if (mine === request) body.classList.remove("is-waiting");
    }
  };
  let typing: ReturnType<typeof setTimeout> | undefined;
  form.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      offset = 0;
      void load();
    }, 200);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  statementMonth.addEventListener("change", () => void load());
  disposal.add(() => request.abort());
  // Rows stay as they were read; whose colours they have may change meanwhile.
  const paint = (): void => body.querySelectorAll<HTMLElement>("[data-tenant]").forEach(paintSwatch);
  disposal.add(places.watch(paint));
  disposal.add(palette.watch(paint));
  append(main, [
    h(
      "header",
      { class: "page-head" },
      h("h1", null, "Ledger"),
      h("p", { class: "page-lead" }, "What was promised, wanted and given, and what was missed, and why."),
      h("span", { class: "grow" }),
      h("div", { class: "actions" }, csv, statementMonth, statement),
    ),
    form,
    h("section", { class: "panel ledger sticky-heads", "aria-label": "Ledger" }, body, pager),
  ]);
  void load();
}

function ledgerTable(rows: readonly LedgerRow[], minutes: boolean): HTMLElement {
  return table<LedgerRow>(
    "Ledger",
    [
      {
        head: minutes ? "Minute" : "Interval",
        cell: (row) => h("time", { title: `to ${clock(row.ended_ms)}` }, instant(row.began_ms)),
      },
      {
        head: "Tenant",
        cell: (row) =>
          h("a", { class: "tenant-link", href: href({ page: "tenant", name: row.tenant }) }, swatch(row.tenant), row.tenant),
      },
      {
        head: "Resource",
        cell: (row) =>
          `${{ cpu: "CPU", io: "I/O", memory: "memory", work_memory: "work memory" }[row.resource] ?? row.resource}${row.volume ? ` · ${row.volume}` : ""}`,
      },
      { head: "Unit", cell: (row) => h("span", { class: "quiet" }, ledgerUnit(row.resource)) },
      ...(["promised", "demanded", "given", "missed", "over"] as const).map((key) => ({
        head: { promised: "Promised", demanded: "Wanted", given: "Given", missed: "Missed", over: "Over limit" }[key],
        figure: true,
        cell: (row: LedgerRow) =>
          key === "missed" && Number(row.missed) > 0
            ? h("strong", { class: "bad" }, ledgerFigure(row.resource, row.missed))
            : ledgerFigure(row.resource, row[key]),
      })),
      {
        head: "Cause",
        cell: (row) => (row.cause ? h("span", { class: "state state-bad", title: causeText(row.cause) }, row.cause) : NONE),
      },
      { head: "Delay p99", figure: true, cell: (row) => seconds(row.delay_p99_s) },
      { head: "Owed", figure: true, cell: (row) => (row.owed ? row.owed.toFixed(2) : NONE) },
    ],
    rows,
    "Nothing on record fits the filter.",
    (row) => (row.cause === null ? "" : "is-broken"),
  );
}

function swatch(name: string): HTMLElement {
  const one = h("i", { class: "swatch", "data-tenant": name });
  paintSwatch(one);
  return one;
}

function paintSwatch(one: HTMLElement): void {
  const id = idOfName(one.dataset["tenant"] ?? "");
  one.style.setProperty("--swatch", (id === null ? null : colourOf(id)) ?? "transparent");
}
