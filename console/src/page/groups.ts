/** Client groups: what there is, and the dialogs and files that change it. */
import type { ClientGroup, Demo } from "../api/types";
import { errorBox } from "../dialog/dialog";
import { openGroup } from "../dialog/group";
import { h, icon, redraw, replace, type Disposal } from "../dom";
import { count, millis, NONE, seconds } from "../format";
import { client, stream } from "../store";
import { button, panel, table } from "./parts";
import { steer } from "./steer";

export function groupsPanel(disposal: Disposal, may: boolean): { element: HTMLElement; show: (demo: Demo) => void } {
  const { element, head, body } = panel("Client groups");
  const refused = h("div", { class: "panel-notice" });
  const rows = h("div");
  body.append(refused, rows);
  const file = h("input", { type: "file", accept: "application/json", class: "visually-hidden", id: "groups-file" });
  file.addEventListener("change", async () => {
    const chosen = file.files?.[0];
    // So that the same file can be chosen again once it was mended.
    file.value = "";
    if (chosen === undefined) return;
    replace(refused);
    try {
      stream.demo.set(await client.loadDemo(JSON.parse(await chosen.text())));
    } catch (error) {
      if (disposal.signal.aborted) return;
      const reason = error instanceof SyntaxError ? `It is not JSON: ${error.message}` : error;
      replace(
        refused,
        h(
          "div",
          { class: "refused-file" },
          h("p", null, h("strong", null, chosen.name), " was refused, and nothing was changed."),
          errorBox(reason),
        ),
      );
    }
  });
  const actions = h("div", { class: "actions" });
  if (may) actions.append(h("label", { class: "button button-small", for: "groups-file" }, icon("upload"), "Load"), file);
  actions.append(
    h("a", { class: "button button-small", href: "/api/demo/file", download: "scenario.json" }, icon("download"), "Save"),
  );
  if (may)
    actions.append(
      button(
        "Add a group",
        () => stream.demo.value && openGroup(null, stream.demo.value.workloads),
        "button-small button-primary",
      ),
    );
  head.append(h("span", { class: "grow" }), actions);
  return { element, show: (demo) => redraw(rows, groupTable(demo, may)) };
}

function groupTable({ groups, workloads }: Demo, may: boolean): HTMLElement {
  const actions = (group: ClientGroup): HTMLElement =>
    h(
      "span",
      { class: "row-actions" },
      h(
        "button",
        {
          type: "button",
          class: "button button-small",
          "aria-label": `Change group ${group.name}`,
          onclick: () => openGroup(group, workloads),
        },
        "Change",
      ),
      h(
        "button",
        {
          type: "button",
          class: "button button-small button-danger-quiet",
          "aria-label": `Remove group ${group.name}`,
          onclick: () => void steer(() => client.removeGroup(group.id)),
        },
        "Remove",
      ),
    );
  return table<ClientGroup>(
    "Client groups",
    [
      { head: "Group", cell: (group) => h("strong", null, group.name) },
      { head: "State", cell: stateOf },
      { head: "Workload", cell: (group) => h("span", { title: pairs(group.options) }, group.workload) },
      { head: "Tenants", figure: true, cell: (group) => String(group.tenants) },
      { head: "Promised to each", cell: (group) => pairs(group.promises) || NONE },
      { head: "Clients each", figure: true, cell: (group) => String(group.clients) },
      { head: "Rate each", figure: true, cell: (group) => (group.rate === null ? "no limit" : `${group.rate}/s`) },
      { head: "Shape", cell: (group) => shapeText(group.shape) },
      {
        head: "Transactions",
        figure: true,
        cell: (group) => (group.throughput === null ? NONE : `${count(group.throughput)}/s`),
      },
      { head: "p99", figure: true, cell: (group) => millis(group.p99_ms) },
      ...(may ? [{ head: "", cell: actions }] : []),
    ],
    groups,
    "No clients. Add a group, or start a story.",
  );
}

function stateOf(group: ClientGroup): HTMLElement {
  const kind = group.state === "running" ? "active" : group.state === "failed" ? "bad" : "idle";
  return h(
    "span",
    { class: `state state-${kind} state-text`, title: group.error ?? "" },
    group.error ? `${group.state}: ${group.error}` : group.state,
  );
}

function pairs(options: ClientGroup["options"]): string {
  return Object.entries(options)
    .map(([key, value]) => `${key} ${value}`)
    .join(", ");
}

function shapeText({ kind, low, high, period_s }: ClientGroup["shape"]): string {
  return kind === "steady" ? "steady" : `${kind}, ${low} to ${high} × in ${seconds(period_s)}`;
}
