/** Pieces that several pages are made of. */
import { ApiError } from "../api/client";
import { errorBox } from "../dialog/dialog";
import { h, redraw, replace, type Child, type Disposal } from "../dom";

export interface TableColumn<T> {
  head: string;
  cell: (row: T) => Child;
  figure?: boolean;
  /** Takes the room that is left, and is cut where it does not fit. */
  wide?: boolean;
}

export function table<T>(
  label: string,
  columns: readonly TableColumn<T>[],
  rows: readonly T[],
  empty: string,
  rowClass?: (row: T) => string,
): HTMLElement {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  const kind = (column: TableColumn<T>): string => `${column.figure ? "figure" : ""} ${column.wide ? "wide" : ""}`.trim();
  return h(
    "div",
    { class: "table-scroll", tabindex: "0", role: "group", "aria-label": label },
    h(
      "table",
      { class: "table" },
      h("caption", { class: "visually-hidden" }, label),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          ...columns.map((column) =>
            h(
              "th",
              { scope: "col", class: kind(column) },
              column.head === "" ? h("span", { class: "visually-hidden" }, "Actions") : column.head,
            ),
          ),
        ),
      ),
      h(
        "tbody",
        null,
        ...rows.map((row) =>
          h(
            "tr",
            { class: rowClass?.(row) ?? "" },
            ...columns.map((column) => h("td", { class: kind(column) }, column.cell(row))),
          ),
        ),
      ),
    ),
  );
}

export function panel(title: string, ...children: Child[]): { element: HTMLElement; head: HTMLElement; body: HTMLElement } {
  const head = h("div", { class: "panel-head" }, h("h2", null, title));
  const body = h("div", { class: "panel-body" }, ...children);
  return { element: h("section", { class: "panel", "aria-label": title }, head, body), head, body };
}

/**
 * Fills `body` with what `load` answers, again every `period_ms` if that is given. While the first answer is out it says so; a failure takes the place of the
 * answer; an interface that the server does not have yet (501) is said as that.
 */
export function loaded<T>(
  body: HTMLElement,
  disposal: Disposal,
  period_ms: number | null,
  load: () => Promise<T>,
  show: (value: T) => Child,
): { again: () => void } {
  let shown = "";
  let running = false;
  let asked = false;
  replace(body, h("p", { class: "empty is-waiting" }, "Loading"));
  const again = async (): Promise<void> => {
    // What was asked before may be about something else.
    asked = running;
    if (running) return;
    running = true;
    try {
      const value = await load();
      if (disposal.signal.aborted) return;
      const text = JSON.stringify(value);
      // What did not change is left alone, and so is text that the reader has selected.
      if (text !== shown && !holdsSelection(body)) {
        shown = text;
        redraw(body, show(value));
      }
    } catch (error) {
      if (disposal.signal.aborted) return;
      shown = "";
      if (error instanceof ApiError && error.status === 501)
        replace(body, h("p", { class: "empty" }, "This server does not tell this."));
      else
        replace(
          body,
          errorBox(error),
          h("button", { type: "button", class: "button button-small", onclick: () => void again() }, "Try again"),
        );
    } finally {
      running = false;
      if (asked && !disposal.signal.aborted) void again();
    }
  };
  void again();
  if (period_ms !== null) disposal.every(period_ms, () => !document.hidden && !running && void again());
  return { again: () => void again() };
}

function holdsSelection(body: HTMLElement): boolean {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && body.contains(selection.anchorNode);
}

export function button(label: Child, onclick: () => void, kind = ""): HTMLButtonElement {
  return h("button", { type: "button", class: `button ${kind}`.trim(), onclick }, label);
}
