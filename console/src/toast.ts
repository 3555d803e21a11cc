/** A line that says what was just done, and goes by itself. */
import { h } from "./dom";

const region = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
document.body.append(region);

export function toast(text: string, kind: "done" | "error" = "done"): void {
  const one = h(
    "div",
    { class: `toast toast-${kind}` },
    h("span", { class: "toast-mark", "aria-hidden": "true" }),
    kind === "done" ? h("code", null, text) : text,
  );
  region.append(one);
  setTimeout(() => one.remove(), kind === "done" ? 5000 : 9000);
}
