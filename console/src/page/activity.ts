/** What a tenant's sessions do: what runs, with a way to end it, what took most, who waits for whom. */
import { ApiError } from "../api/client";
import type { StatementOrder, TenantSession } from "../api/types";
import { h, type Disposal } from "../dom";
import { count, instant, millis, NONE, seconds, whole } from "../format";
import { client, isAdministrator, ran } from "../store";
import { toast } from "../toast";
import { button, loaded, panel, table, type TableColumn } from "./parts";

/** Rows of which there may be thousands, drawn anew every two seconds: with all of them a browser would stand still. */
const ROWS_MAX = 500;

/** A table of the first rows, and how many there are. */
function tableOfFirst<T>(label: string, columns: readonly TableColumn<T>[], rows: readonly T[], empty: string): HTMLElement {
  const first = table(label, columns, rows.slice(0, ROWS_MAX), empty);
  if (rows.length <= ROWS_MAX) return first;
  return h("div", null, first, h("p", { class: "panel-note" }, `The first ${whole(ROWS_MAX)} of ${whole(rows.length)}.`));
}

export function activity(
  name: string,
  disposal: Disposal,
): { running: HTMLElement; statements: HTMLElement; locks: HTMLElement } {
  return {
    running: runningPanel(name, disposal),
    statements: statementsPanel(name, disposal),
    locks: locksPanel(name, disposal),
  };
}

function runningPanel(name: string, disposal: Disposal): HTMLElement {
  const { element, body } = panel("Sessions and what they run");
  const end = async (pid: number, how: "cancel" | "terminate"): Promise<void> => {
    try {
      const { sql, done } = await client.endSession(name, pid, how);
      // It ran, whether or not the session was still there.
      ran(sql);
      toast(done === false ? `Session ${pid} had ended already` : sql);
      list.again();
    } catch (error) {
      toast(error instanceof ApiError ? error.message : String(error), "error");
    }
  };
  const state = (row: TenantSession): HTMLElement =>
    h(
      "span",
      {
        class: `state state-${row.state === "active" ? "active" : row.state?.startsWith("idle in transaction") ? "held" : "idle"}`,
      },
      row.state ?? NONE,
    );
  const list = loaded(
    body,
    disposal,
    2000,
    async () => (await client.sessions(name)).rows,
    (rows) => {
      const now = Date.now();
      const since = (at: number | null): string => (at === null ? NONE : seconds(Math.max(0, Math.round((now - at) / 1000))));
      return tableOfFirst<TenantSession>(
        "Sessions",
        [
          { head: "Session", figure: true, cell: (row) => String(row.pid) },
          { head: "State", cell: state },
          { head: "Waits for", cell: (row) => row.wait_event ?? NONE },
          { head: "Statement for", figure: true, cell: (row) => (row.state === "active" ? since(row.query_start_ms) : NONE) },
          { head: "Transaction for", figure: true, cell: (row) => since(row.transaction_start_ms) },
          {
            head: "Statement",
            wide: true,
            cell: (row) => h("code", { class: "query", title: row.query ?? "" }, row.query ?? NONE),
          },
          { head: "Client", cell: (row) => [row.application_name, row.client].filter(Boolean).join(" · ") || NONE },
          ...(isAdministrator()
            ? [
                {
                  head: "",
                  cell: (row: TenantSession) =>
                    h(
                      "span",
                      { class: "row-actions" },
                      row.state === "active"
                        ? h(
                            "button",
                            {
                              type: "button",
                              class: "button button-small",
                              "aria-label": `Cancel the statement of session ${row.pid}`,
                              onclick: () => void end(row.pid, "cancel"),
                            },
                            "Cancel",
                          )
                        : null,
                      h(
                        "button",
                        {
                          type: "button",
                          class: "button button-small button-plain",
                          "aria-label": `End session ${row.pid}`,
                          onclick: () => void end(row.pid, "terminate"),
                        },
                        "End session",
                      ),
                    ),
                },
              ]
            : []),
        ],
        [...rows].sort(
          (a, b) =>
            Number(b.state === "active") - Number(a.state === "active") || (a.query_start_ms ?? 0) - (b.query_start_ms ?? 0),
        ),
        "Nobody is connected.",
      );
    },
  );
  return element;
}

function statementsPanel(name: string, disposal: Disposal): HTMLElement {
  const { element, head, body } = panel("Top statements");
  let by: StatementOrder = "cpu";
  const since = h("span", { class: "panel-note" });
  const choices = (
    [
      ["cpu", "CPU"],
      ["io", "I/O"],
      ["calls", "Calls"],
    ] as const
  ).map(([key, label]) => {
    const one = button(
      label,
      () => {
        by = key;
        for (const choice of choices) choice.setAttribute("aria-pressed", String(choice === one));
        list.again();
      },
      "segment",
    );
    one.setAttribute("aria-pressed", String(key === by));
    return one;
  });
  head.append(
    since,
    h("span", { class: "grow" }),
    h("div", { class: "segments", role: "group", "aria-label": "Ranked by" }, ...choices),
  );
  const list = loaded(
    body,
    disposal,
    5000,
    () => client.statements(name, by),
    ({ rows, since_ms }) => {
      since.textContent = since_ms ? `since ${instant(since_ms)}` : "";
      return table(
        "Top statements",
        [
          { head: "Statement", wide: true, cell: (row) => h("code", { class: "query", title: row.query }, row.query) },
          { head: "Calls", figure: true, cell: (row) => count(row.calls) },
          { head: "CPU", figure: true, cell: (row) => seconds(row.cpu_seconds) },
          { head: "I/Os", figure: true, cell: (row) => count(row.ios) },
          { head: "Rows", figure: true, cell: (row) => count(row.rows) },
          { head: "Mean", figure: true, cell: (row) => millis(row.mean_ms) },
          { head: "Slowest", figure: true, cell: (row) => millis(row.max_ms) },
        ],
        rows,
        "No statement yet.",
      );
    },
  );
  return element;
}

function locksPanel(name: string, disposal: Disposal): HTMLElement {
  const { element, body } = panel("Locks");
  loaded(
    body,
    disposal,
    2000,
    async () => (await client.locks(name)).rows,
    (rows) =>
      tableOfFirst(
        "Locks",
        [
          { head: "Session", figure: true, cell: (row) => String(row.pid) },
          { head: "On", cell: (row) => row.relation ?? NONE },
          { head: "Mode", cell: (row) => row.mode },
          {
            head: "State",
            cell: (row) =>
              row.granted
                ? "held"
                : h(
                    "span",
                    { class: "state state-held" },
                    `waits for ${row.blocked_by.map((pid) => String(pid)).join(", ") || "others"}`,
                  ),
          },
        ],
        [...rows].sort((a, b) => Number(a.granted) - Number(b.granted)),
        "No lock is held.",
      ),
  );
  return element;
}
