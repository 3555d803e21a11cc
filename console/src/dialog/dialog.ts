/** Dialogs that change something. Each shows the statement before it runs, as the server composes it, and says afterwards what the server said. */
import { ApiError } from "../api/client";
import type { ChangeResult } from "../api/types";
import { h, icon, replace, type Child } from "../dom";
import { ran, session } from "../store";
import { toast } from "../toast";

export interface ChangeDialog {
  title: string;
  /** What the reader should know before. */
  lead?: Child;
  fields: Child[];
  run: string;
  danger?: boolean;
  /** The change as it stands in the fields, null while it is none. `dry`: only its statement. */
  request: (dry: boolean) => Promise<ChangeResult> | null;
  /** False while the fields do not allow it yet. */
  ready?: () => boolean;
  done?: () => void;
}

export function copyButton(text: () => string): HTMLButtonElement {
  const label = h("span", null, "Copy");
  const button = h(
    "button",
    {
      type: "button",
      class: "button button-small",
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(text());
          label.textContent = "Copied";
        } catch {
          label.textContent = "Not allowed";
        }
        setTimeout(() => (label.textContent = "Copy"), 1500);
      },
    },
    icon("copy"),
    label,
  );
  return button;
}

export function errorBox(error: unknown): HTMLElement {
  const body = error instanceof ApiError ? error.body : null;
  return h(
    "div",
    { class: "notice notice-error", role: "alert" },
    h("strong", null, body?.code ?? "Error"),
    h("p", null, body?.message ?? String(error)),
    body?.detail && h("p", { class: "notice-more" }, body.detail),
    body?.hint && h("p", { class: "notice-more" }, body.hint),
  );
}

export function openChange(options: ChangeDialog): void {
  const sql = h("code", { class: "sql", tabindex: "0", "aria-label": "The statement" });
  const outcome = h("div", { class: "dialog-outcome" });
  const runButton = h(
    "button",
    { type: "submit", class: `button button-primary${options.danger ? " button-danger" : ""}` },
    options.run,
  );
  const cancel = h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h(
    "form",
    { method: "dialog", class: "dialog-form" },
    h(
      "header",
      { class: "dialog-head" },
      h("h2", { id: "dialog-title" }, options.title),
      h("button", { type: "button", class: "button-icon", "aria-label": "Close", onclick: () => dialog.close() }, icon("close")),
    ),
    h("div", { class: "dialog-body" }, options.lead ? h("p", { class: "dialog-lead" }, options.lead) : null, ...options.fields),
    h(
      "div",
      { class: "dialog-sql" },
      h(
        "div",
        { class: "dialog-sql-head" },
        h("span", null, "SQL that runs"),
        copyButton(() => sql.textContent ?? ""),
      ),
      sql,
    ),
    outcome,
    h("footer", { class: "dialog-foot" }, cancel, runButton),
  );
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "dialog-title" }, form);

  let latest = 0;
  const preview = async (): Promise<void> => {
    const turn = ++latest;
    const pending = options.request(true);
    runButton.disabled = pending === null || options.ready?.() === false || session.value?.role !== "administrator";
    if (pending === null) {
      replace(sql, h("span", { class: "sql-none" }, "Nothing to change yet"));
      return;
    }
    try {
      const { sql: text } = await pending;
      if (turn !== latest) return;
      sql.textContent = text;
      replace(outcome);
    } catch (error) {
      if (turn !== latest) return;
      runButton.disabled = true;
      replace(outcome, errorBox(error));
    }
  };
  let typing: ReturnType<typeof setTimeout> | undefined;
  form.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => void preview(), 120);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void run();
  });
  const run = async (): Promise<void> => {
    clearTimeout(typing);
    const pending = options.ready?.() === false ? null : options.request(false);
    if (pending === null) return;
    latest += 1;
    runButton.disabled = true;
    runButton.setAttribute("aria-busy", "true");
    try {
      const result = await pending;
      ran(result.sql);
      options.done?.();
      const notices = result.notices ?? [];
      if (notices.length === 0) {
        dialog.close();
        toast(result.sql);
        return;
      }
      sql.textContent = result.sql;
      replace(
        outcome,
        h("div", { class: "notice notice-good", role: "status" }, "Done, and the server has something to say:"),
        ...notices.map((notice) =>
          h(
            "div",
            { class: "notice notice-warn", role: "status" },
            h("strong", null, notice.severity),
            h("p", null, notice.message),
            notice.detail && h("p", { class: "notice-more" }, notice.detail),
          ),
        ),
      );
      cancel.textContent = "Close";
      runButton.remove();
      cancel.focus();
    } catch (error) {
      replace(outcome, errorBox(error));
      runButton.disabled = false;
    } finally {
      runButton.removeAttribute("aria-busy");
    }
  };
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  void preview();
}
