/** What the server is told: its policy, tenants, sizes, volumes and rules. Every action shows its statement first; those of this visit stand at the end, to copy. */
import type { Policy, Row, Volume } from "../api/types";
import {
  alterOverbooking,
  alterPolicy,
  alterServer,
  alterSize,
  alterVolume,
  createRule,
  createSize,
  createTenant,
  dropRule,
  dropSize,
} from "../dialog/change";
import { copyButton } from "../dialog/dialog";
import { append, h, redraw, replace, type Disposal } from "../dom";
import { bytes, clock, cores, instant, option, seconds, whole } from "../format";
import { client, isAdministrator, refreshServer, server, statementsRun, stream } from "../store";
import { button, loaded, panel, table } from "./parts";

const POLICIES: { policy: Policy; label: string; text: string }[] = [
  { policy: "reservations", label: "Reservations", text: "All promises are kept" },
  { policy: "max_only", label: "Max only", text: "Limits and weights are kept" },
  { policy: "best_effort", label: "Best effort", text: "Weights only" },
];

export function managePage(main: HTMLElement, disposal: Disposal): void {
  const may = isAdministrator();
  const refresh = (): void => void refreshServer().catch(() => {});
  append(main, [
    h(
      "header",
      { class: "page-head" },
      h("h1", null, "Manage"),
      h("span", { class: "grow" }),
      may
        ? h(
            "div",
            { class: "actions" },
            button("Create a tenant", () => void createTenant(refresh), "button-primary"),
          )
        : h("p", { class: "panel-note" }, "Signed in as a viewer: nothing can be changed."),
    ),
    h(
      "div",
      { class: "panels" },
      serverPanel(disposal, may),
      h("div", { class: "panels-row" }, sizesPanel(disposal, may), volumesPanel(disposal, may)),
      rulesPanel(disposal, may),
      scriptPanel(disposal),
    ),
  ]);
}

const OVERBOOKINGS: { overbooking: string; label: string; text: string }[] = [
  { overbooking: "spread", label: "Spread", text: "All fall short in proportion" },
  { overbooking: "0.5", label: "Half and half", text: "Between the two" },
  { overbooking: "least_penalty", label: "Least penalty", text: "Who costs least falls short first" },
];

interface Choice {
  label: string;
  text: string;
  is: () => boolean;
  take: () => void;
}

/** What the server does, of several things that it can do; what somebody else changes shows here, too. */
function serverSwitch(disposal: Disposal, may: boolean, label: string, choices: readonly Choice[]): HTMLElement {
  const segments = choices.map((choice) => ({
    choice,
    one: h(
      "button",
      { type: "button", class: "segment segment-wide", disabled: !may, onclick: () => !choice.is() && choice.take() },
      h("strong", null, choice.label),
      h("span", null, choice.text),
    ),
  }));
  const show = (): void => {
    for (const { choice, one } of segments) one.setAttribute("aria-pressed", String(choice.is()));
  };
  show();
  disposal.add(server.watch(show));
  const group = h(
    "div",
    { class: "segments segments-wide", role: "group", "aria-label": label },
    ...segments.map(({ one }) => one),
  );
  return h("div", { class: "switch" }, h("span", { class: "switch-label", "aria-hidden": "true" }, label), group);
}

/** These two also stand on the page of scenarios. */
export function policySwitch(disposal: Disposal, may: boolean): HTMLElement {
  const choices = POLICIES.map(({ policy, label, text }) => ({
    label,
    text,
    is: () => server.value?.policy === policy,
    take: () => alterPolicy(policy),
  }));
  return serverSwitch(disposal, may, "Policy", choices);
}

export function overbookingSwitch(disposal: Disposal, may: boolean): HTMLElement {
  const choices = OVERBOOKINGS.map(({ overbooking, label, text }) => ({
    label,
    text,
    is: () => String(server.value?.overbooking) === overbooking,
    take: () => alterOverbooking(overbooking),
  }));
  return serverSwitch(disposal, may, "Overbooking", choices);
}

function serverPanel(disposal: Disposal, may: boolean): HTMLElement {
  const { element, head, body } = panel("Server");
  if (may)
    head.append(
      h("span", { class: "grow" }),
      button("Alter", () => server.value && alterServer(server.value), "button-small"),
    );
  const facts = h("dl", { class: "facts" });
  append(body, [h("div", { class: "switches" }, policySwitch(disposal, may), overbookingSwitch(disposal, may)), facts]);
  const show = (): void => {
    const now = server.value;
    if (now === null) return;
    const share = (promised: number, there: number): string => (there > 0 ? ` (${Math.round((100 * promised) / there)} %)` : "");
    replace(
      facts,
      ...(
        [
          ["Overbooking", String(now.overbooking)],
          ["Metering interval", seconds(now.metering_interval_ms / 1000)],
          ["Workers", String(now.workers)],
          ["Tenants", whole(now.tenants)],
          // What is promised is the workers' time: a core without one serves nobody.
          [
            "CPU promised",
            `${cores(now.promised.cpu)} of ${now.workers} ${now.workers === 1 ? "core" : "cores"}${share(now.promised.cpu, now.workers)}`,
          ],
          [
            "Memory promised",
            `${bytes(now.promised.memory_bytes)} of ${bytes(now.memory_bytes)}${share(now.promised.memory_bytes, now.memory_bytes)}`,
          ],
          [
            "Work memory promised",
            `${bytes(now.promised.work_memory_bytes)} of ${bytes(now.work_memory_bytes)}${share(now.promised.work_memory_bytes, now.work_memory_bytes)}`,
          ],
          ["Up since", instant(now.started_ms)],
          ["Version", now.version],
        ] as const
      ).map(([term, text]) => h("div", null, h("dt", null, term), h("dd", null, text))),
    );
  };
  show();
  disposal.add(server.watch(show));
  return element;
}

function sizesPanel(disposal: Disposal, may: boolean): HTMLElement {
  const { element, head, body } = panel("Sizes");
  const list = loaded(
    body,
    disposal,
    null,
    async () => (await client.sizes()).rows,
    (rows) =>
      table<Row>(
        "Sizes",
        [
          { head: "Name", cell: (row) => h("strong", null, option(row["name"])) },
          ...(["cpu", "cpu_max", "iops", "iops_max", "memory", "memory_max", "work_memory"] as const)
            .filter((key) => rows.some((row) => row[key] !== null && row[key] !== undefined))
            .map((key) => ({ head: key, figure: true, cell: (row: Row) => option(row[key]) })),
          ...(may
            ? [
                {
                  head: "",
                  cell: (row: Row) =>
                    h(
                      "span",
                      { class: "row-actions" },
                      labelled(
                        button("Alter", () => alterSize(String(row["name"]), row, again), "button-small"),
                        `Alter size ${row["name"]}`,
                      ),
                      labelled(
                        button("Drop", () => dropSize(String(row["name"]), again), "button-small button-danger-quiet"),
                        `Drop size ${row["name"]}`,
                      ),
                    ),
                },
              ]
            : []),
        ],
        rows,
        "There is no size.",
      ),
  );
  const again = (): void => list.again();
  disposal.add(stream.changed.watch((changed) => changed?.what === "sizes" && again()));
  if (may)
    head.append(
      h("span", { class: "grow" }),
      button("Create a size", () => createSize(again), "button-small"),
    );
  return element;
}

function labelled(one: HTMLButtonElement, label: string): HTMLButtonElement {
  one.setAttribute("aria-label", label);
  return one;
}

function volumesPanel(disposal: Disposal, may: boolean): HTMLElement {
  const { element, body } = panel("Volumes");
  let shown = "";
  const show = (): void => {
    const volumes = server.value?.volumes ?? [];
    const text = JSON.stringify(volumes);
    if (text === shown) return;
    shown = text;
    redraw(
      body,
      table<Volume>(
        "Volumes",
        [
          { head: "Name", cell: (row) => h("strong", null, row.name) },
          { head: "IOPS limit", figure: true, cell: (row) => whole(row.iops_limit) },
          { head: "Promised", figure: true, cell: (row) => whole(row.promised_iops) },
          { head: "Calibrated", figure: true, cell: (row) => whole(row.calibrated_iops) },
          {
            head: "Calibration",
            cell: (row) =>
              h("span", { class: `state state-${row.calibration === "fresh" ? "active" : "held"}` }, row.calibration),
          },
          ...(may
            ? [
                {
                  head: "",
                  cell: (row: Volume) =>
                    labelled(
                      button("Limit", () => alterVolume(row.name, row.iops_limit, () => void refreshServer()), "button-small"),
                      `Limit volume ${row.name}`,
                    ),
                },
              ]
            : []),
        ],
        volumes,
        "No volume.",
      ),
    );
  };
  show();
  disposal.add(server.watch(show));
  return element;
}

function rulesPanel(disposal: Disposal, may: boolean): HTMLElement {
  const { element, head, body } = panel("Runaway rules");
  const list = loaded(
    body,
    disposal,
    10_000,
    async () => (await client.rules()).rows,
    (rows) =>
      table<Row>(
        "Runaway rules",
        [
          { head: "Name", cell: (row) => h("strong", null, option(row["name"])) },
          {
            head: "Tenant",
            cell: (row) => (row["tenant"] === null || row["tenant"] === undefined ? "all" : option(row["tenant"])),
          },
          ...(["elapsed", "cpu", "rows", "io"] as const).map((key) => ({
            head: key,
            figure: true,
            cell: (row: Row) => option(row[key]),
          })),
          { head: "Then", cell: (row) => option(row["action"]) },
          { head: "Acted", figure: true, cell: (row) => option(row["acted"]) },
          ...(may
            ? [
                {
                  head: "",
                  cell: (row: Row) =>
                    labelled(
                      button("Drop", () => dropRule(String(row["name"]), again), "button-small button-danger-quiet"),
                      `Drop rule ${row["name"]}`,
                    ),
                },
              ]
            : []),
        ],
        rows,
        "There is no rule: no statement is too long.",
      ),
  );
  const again = (): void => list.again();
  disposal.add(stream.changed.watch((changed) => changed?.what === "rules" && again()));
  if (may)
    head.append(
      h("span", { class: "grow" }),
      button("Create a rule", () => createRule(again), "button-small"),
    );
  return element;
}

function scriptPanel(disposal: Disposal): HTMLElement {
  const { element, head, body } = panel("Run from this page");
  head.append(
    h("span", { class: "grow" }),
    copyButton(() =>
      [...statementsRun.value]
        .reverse()
        .map(({ text }) => `${text};`)
        .join("\n"),
    ),
  );
  const show = (): void => {
    const all = statementsRun.value;
    replace(
      body,
      all.length === 0
        ? h("p", { class: "empty" }, "Nothing yet. Each statement stands here once it ran, newest first.")
        : h(
            "ol",
            { class: "script" },
            ...all.map(({ t_ms, text }) => h("li", null, h("time", null, clock(t_ms)), h("code", { class: "sql" }, text))),
          ),
    );
  };
  show();
  disposal.add(statementsRun.watch(show));
  return element;
}
