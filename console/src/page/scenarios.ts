/** Stories that run by themselves, and client groups to make one's own. */
import { ApiError } from "../api/client";
import type { ClientGroup, Demo, ShapeKind, Workload } from "../api/types";
import { errorBox } from "../dialog/dialog";
import { field } from "../dialog/options";
import { append, h, icon, redraw, replace, setText, type Disposal } from "../dom";
import { count, millis, NONE, seconds } from "../format";
import { client, isAdministrator, stream } from "../store";
import { toast } from "../toast";
import { policySwitch } from "./manage";
import { LiveCharts } from "./overview";
import { button, panel, table } from "./parts";

const SPEEDS = [0.5, 1, 2, 5, 10];
const WORKLOADS: Workload[] = ["tpcc", "cpuio", "dvdstore", "tpch", "pgbench"];
const SHAPES: ShapeKind[] = ["steady", "ramp", "wave", "burst", "step"];

const attempt = async (what: () => Promise<unknown>): Promise<void> => {
  try {
    await what();
    stream.demo.set(await client.demo());
  } catch (error) {
    toast(error instanceof ApiError ? error.message : String(error), "error");
  }
};

export function scenariosPage(main: HTMLElement, disposal: Disposal): void {
  const may = isAdministrator();
  const charts = new LiveCharts(disposal, 150);
  const stories = panel("Stories");
  const groups = panel("Client groups");
  const progress = h("div", { class: "story-progress", role: "status" });
  const policy = panel("Policy", policySwitch(disposal, may));
  const load = h("input", { type: "file", accept: "application/json", class: "visually-hidden", id: "groups-file" });
  load.addEventListener("change", async () => {
    const file = load.files?.[0];
    load.value = "";
    if (file) await attempt(async () => client.loadDemo(JSON.parse(await file.text())));
  });
  groups.head.append(h("span", { class: "grow" }), h("div", { class: "actions" }, ...(may ? [h("label", { class: "button button-small", for: "groups-file" }, icon("upload"), "Load"), load] : []), h("a", { class: "button button-small", href: "/api/demo/file", download: "scenario.json" }, icon("download"), "Save"), ...(may ? [button("Add a group", () => openGroup(null), "button-small button-primary")] : [])));
  append(main, [h("header", { class: "page-head" }, h("h1", null, "Scenarios"), h("p", { class: "page-lead" }, "Real workloads over the wire. Watch who notices.")), h("div", { class: "panels" }, stories.element, h("div", { class: "live live-small" }, charts.grid, charts.who), policy.element, groups.element)]);
  charts.start();

  let drawn = "";
  const show = (demo: Demo | null): void => {
    if (demo === null) return;
    const running = demo.running;
    const story = running === null ? undefined : demo.stories.find(({ id }) => id === running.story);
    if (running !== null && story) {
      const step = running.steps[running.step];
      setText(progress, `${story.title}: ${step?.text ?? ""} (step ${running.step + 1} of ${running.steps.length}, ${seconds(Math.round((Date.now() - running.began_ms) / 1000))} since the start)`);
    } else setText(progress, "");
    const key = JSON.stringify([demo.stories, running?.story, running?.speed, running?.step]);
    if (key !== drawn) {
      drawn = key;
      redraw(stories.body, storyCards(demo, may), progress, running ? storySteps(running) : null);
    }
    redraw(groups.body, groupTable(demo.groups, may));
  };
  disposal.add(stream.demo.watch(show));
  show(stream.demo.value);
  client.demo().then((demo) => stream.demo.set(demo), (error: unknown) => {
    if (!disposal.signal.aborted) replace(stories.body, error instanceof ApiError && error.status === 404 ? h("p", { class: "empty" }, "This server was not started by “rowhouse demo”: it has no stories.") : errorBox(error));
  });
}

function storyCards(demo: Demo, may: boolean): HTMLElement {
  return h("div", { class: "stories" }, ...demo.stories.map((story) => {
    const isRunning = demo.running?.story === story.id;
    const speed = h("select", { class: "select-small", "aria-label": "Speed", disabled: !may, onchange: (event) => void attempt(() => client.demoSpeed(Number((event.target as HTMLSelectElement).value))) }, ...SPEEDS.map((factor) => h("option", { value: factor, selected: factor === (demo.running?.speed ?? 1) }, `${factor} ×`)));
    return h("article", { class: `story${isRunning ? " is-running" : ""}` }, h("h3", null, story.title), h("p", null, story.text),
      h("footer", null, h("span", { class: "quiet" }, `${story.minutes} min`), h("span", { class: "grow" }),
        isRunning ? speed : null,
        isRunning ? h("button", { type: "button", class: "button button-small", disabled: !may, "aria-label": `Stop ${story.title}`, onclick: () => void attempt(() => client.stopStory()) }, icon("stop"), "Stop") : h("button", { type: "button", class: "button button-small button-primary", disabled: !may, "aria-label": `Start ${story.title}`, onclick: () => void attempt(() => client.startStory(story.id)) }, icon("scenarios"), "Start")));
  }));
}

function storySteps(running: NonNullable<Demo["running"]>): HTMLElement {
  return h("ol", { class: "story-steps" }, ...running.steps.map((step, i) => h("li", { class: i === running.step ? "is-now" : i < running.step ? "is-done" : "", "aria-current": i === running.step ? "step" : null }, h("time", null, seconds(step.at_s)), step.text)));
}

function shapeText(shape: ClientGroup["shape"]): string {
  return shape.kind === "steady" ? "steady" : `${shape.kind}, ${shape.low} to ${shape.high} × in ${seconds(shape.period_s)}`;
}

function groupTable(groups: readonly ClientGroup[], may: boolean): HTMLElement {
  return table<ClientGroup>("Client groups", [
    { head: "Group", cell: (group) => h("strong", null, group.name) },
    { head: "State", cell: (group) => h("span", { class: `state state-${group.state === "running" ? "active" : group.state === "failed" ? "bad" : "idle"}`, title: group.error ?? "" }, group.error ? `failed: ${group.error}` : group.state) },
    { head: "Workload", cell: (group) => group.workload }, { head: "Tenants", figure: true, cell: (group) => String(group.tenants) }, { head: "Clients each", figure: true, cell: (group) => String(group.clients) },
    { head: "Rate each", figure: true, cell: (group) => (group.rate === null ? "as fast as it goes" : `${group.rate}/s`) }, { head: "Shape", cell: (group) => shapeText(group.shape) },
    { head: "Throughput", figure: true, cell: (group) => (group.throughput === null ? NONE : `${count(group.throughput)}/s`) }, { head: "p99", figure: true, cell: (group) => millis(group.p99_ms) },
    ...(may ? [{ head: "", cell: (group: ClientGroup) => h("span", { class: "row-actions" }, h("button", { type: "button", class: "button button-small", "aria-label": `Change group ${group.name}`, onclick: () => openGroup(group) }, "Change"), h("button", { type: "button", class: "button button-small button-danger-quiet", "aria-label": `Remove group ${group.name}`, onclick: () => void attempt(() => client.removeGroup(group.id)) }, "Remove")) }] : []),
  ], groups, "No clients. Add a group, or start a story.");
}

function openGroup(group: ClientGroup | null): void {
  const input = (name: string, value: string | number, props: Record<string, string> = {}): HTMLInputElement => h("input", { name, value, autocomplete: "off", ...props });
  const number = (name: string, value: number | string, min = "0"): HTMLInputElement => input(name, value, { type: "number", min, step: "any" });
  const pick = (name: string, choices: readonly string[], chosen: string): HTMLSelectElement => h("select", { name }, ...choices.map((choice) => h("option", { value: choice, selected: choice === chosen }, choice)));
  const name = input("name", group?.name ?? "", { required: "" });
  const prefix = input("tenant_prefix", group?.tenant_prefix ?? "", { required: "" });
  const tenants = number("tenants", group?.tenants ?? 1, "1");
  const clients = number("clients", group?.clients ?? 1, "1");
  const workload = pick("workload", WORKLOADS, group?.workload ?? "tpcc");
  const rate = number("rate", group?.rate ?? "");
  const kind = pick("shape", SHAPES, group?.shape.kind ?? "steady");
  const period = number("period_s", group?.shape.period_s ?? 60, "1");
  const low = number("low", group?.shape.low ?? 0);
  const high = number("high", group?.shape.high ?? 1);
  const options = input("options", Object.entries(group?.options ?? {}).map(([key, value]) => `${key}=${value}`).join(" "), { placeholder: "warehouses=2" });
  const outcome = h("div");
  const form = h("form", { method: "dialog", class: "dialog-form" },
    h("header", { class: "dialog-head" }, h("h2", { id: "group-title" }, group === null ? "Add a client group" : `Change ${group.name}`), h("button", { type: "button", class: "button-icon", "aria-label": "Close", onclick: () => dialog.close() }, icon("close"))),
    h("div", { class: "dialog-body" },
      h("div", { class: "fields" }, field("Name", name), field("Workload", workload), field("Tenants named", prefix, "prefix of their names"), field("How many tenants", tenants), field("Clients for each", clients), field("Rate for each", rate, "statements a second; empty: as fast as it goes"), field("Options", options, "of the workload")),
      h("div", { class: "fields" }, field("Shape over time", kind), field("Period", period, "seconds"), field("From", low, "times the clients or the rate"), field("To", high, "times the clients or the rate"))),
    outcome, h("footer", { class: "dialog-foot" }, h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel"), h("button", { type: "submit", class: "button button-primary" }, group === null ? "Add group" : "Change group")));
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "group-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body: Partial<ClientGroup> = {
      name: name.value.trim(), tenant_prefix: prefix.value.trim(), tenants: Number(tenants.value), clients: Number(clients.value), workload: workload.value as Workload, rate: rate.value === "" ? null : Number(rate.value),
      shape: { kind: kind.value as ShapeKind, period_s: Number(period.value), low: Number(low.value), high: Number(high.value) },
      options: Object.fromEntries(options.value.split(/\s+/).filter((pair) => pair.includes("=")).map((pair) => pair.split("=", 2) as [string, string])),
    };
    try {
      await (group === null ? client.addGroup(body) : client.changeGroup(group.id, body));
      dialog.close();
      stream.demo.set(await client.demo());
    } catch (error) {
      replace(outcome, errorBox(error));
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
