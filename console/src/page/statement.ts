/** Kept and broken promises of a tenant in a month, to print. */
import type { Report } from "../api/types";
import { causeText } from "../chart/promise";
import { append, h, icon, type Disposal } from "../dom";
import { instantUtc, ledgerFigure, ledgerUnit, NONE, whole } from "../format";
import { href, type Route } from "../router";
import { client } from "../store";
import { loaded, table } from "./parts";

const RESOURCES = { cpu: "Processor time", io: "I/O", memory: "Buffer memory", work_memory: "Working memory" } as const;

export function statementPage(main: HTMLElement, disposal: Disposal, to: Route): void {
  if (to.page !== "statement") return;
  const month = h("input", { type: "month", value: to.month, "aria-label": "Month" });
  month.addEventListener(
    "change",
    () => month.value && (location.hash = href({ page: "statement", name: to.name, month: month.value }).slice(1)),
  );
  const body = h("div", { class: "statement-body" });
  append(main, [
    h(
      "header",
      { class: "page-head no-print" },
      h("a", { class: "crumb", href: href({ page: "ledger", tenant: to.name }) }, "Ledger"),
      h("span", { class: "crumb-end" }, "Statement"),
      h("span", { class: "grow" }),
      h(
        "div",
        { class: "actions" },
        month,
        h("button", { type: "button", class: "button button-primary", onclick: () => print() }, icon("print"), "Print"),
      ),
    ),
    h("article", { class: "statement panel" }, body),
  ]);
  loaded(body, disposal, null, () => client.report(to.name, to.month), show);
}

function show(report: Report): HTMLElement {
  const broken = report.resources.reduce((sum, one) => sum + one.broken, 0);
  const intervals = report.resources.reduce((sum, one) => sum + one.intervals, 0);
  const share = (part: number, of: number): string => (of === 0 ? NONE : `${((100 * (of - part)) / of).toFixed(3)} %`);
  const named = (one: Report["resources"][number]): string =>
    `${RESOURCES[one.resource]}${one.volume ? `, volume ${one.volume}` : ""}`;
  return h(
    "div",
    null,
    h(
      "header",
      { class: "statement-head" },
      h("h1", null, `Statement of promises: ${report.tenant}`),
      h("p", null, `${report.month} · ${instantUtc(report.from_ms)} to ${instantUtc(report.to_ms)} UTC`),
      report.recorded_from_ms !== null && report.recorded_from_ms > report.from_ms
        ? h("p", { class: "quiet" }, `On record from ${instantUtc(report.recorded_from_ms)}.`)
        : null,
    ),
    h(
      "p",
      { class: "statement-sum" },
      intervals === 0
        ? "Nothing is on record of this month: the server was not there, the tenant was promised nothing or used nothing, or it is more than 62 days ago."
        : broken === 0
          ? "Every promise was kept, in all intervals."
          : `Promises were kept in ${share(broken, intervals)} of ${whole(intervals)} intervals; ${whole(broken)} were broken.${report.owed ? ` Owed: ${report.owed.toFixed(2)}.` : ""}`,
    ),
    table(
      "Resources",
      [
        { head: "Resource", cell: (one) => h("strong", null, named(one)) },
        { head: "Unit", cell: (one) => ledgerUnit(one.resource) },
        { head: "Intervals", figure: true, cell: (one) => whole(one.intervals) },
        { head: "Broken", figure: true, cell: (one) => whole(one.broken) },
        { head: "Kept", figure: true, cell: (one) => share(one.broken, one.intervals) },
        ...(["promised", "demanded", "given", "missed"] as const).map((key) => ({
          head: { promised: "Promised", demanded: "Wanted", given: "Given", missed: "Missed" }[key],
          figure: true,
          cell: (one: Report["resources"][number]) => ledgerFigure(one.resource, one[key]),
        })),
        { head: "Owed", figure: true, cell: (one) => (one.owed ? one.owed.toFixed(2) : NONE) },
      ],
      report.resources,
      "Nothing on record.",
    ),
    ...report.resources
      .filter((one) => one.broken > 0)
      .map((one) =>
        h(
          "section",
          { class: "statement-section" },
          h("h2", null, `${named(one)}: what was broken`),
          table(
            "Causes",
            [
              { head: "Cause", cell: (row) => row.cause },
              { head: "Meaning", wide: true, cell: (row) => causeText(row.cause) },
              { head: "Intervals", figure: true, cell: (row) => whole(row.broken) },
              {
                head: `Missed, ${ledgerUnit(one.resource)}`,
                figure: true,
                cell: (row) => ledgerFigure(one.resource, row.missed),
              },
            ],
            one.causes,
            "No cause on record.",
          ),
          h("h3", null, "The worst"),
          table(
            "The worst",
            [
              { head: "Began, UTC", cell: (row) => instantUtc(row.began_ms) },
              { head: "Minutes", figure: true, cell: (row) => whole(row.minutes) },
              {
                head: `Missed, ${ledgerUnit(one.resource)}`,
                figure: true,
                cell: (row) => ledgerFigure(one.resource, row.missed),
              },
              { head: "Cause", wide: true, cell: (row) => row.cause ?? NONE },
            ],
            one.worst,
            "None.",
          ),
        ),
      ),
    h(
      "footer",
      { class: "statement-foot" },
      "Intervals are those in which the tenant was promised something and used or wanted some. Missed is what it wanted and was promised, and did not get. An interval in which nothing was missed is broken where a request was answered later than it was promised.",
    ),
  );
}
