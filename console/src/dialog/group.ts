/** The dialog for a client group: who its tenants are, what their clients do, how much of it and when. */
import type { ClientGroup, KnownOption, ShapeKind, Workload, WorkloadOptions } from "../api/types";
import { typed } from "../api/typed";
import { h, icon, replace } from "../dom";
import { client, stream } from "../store";
import { errorBox } from "./dialog";
import { field, LIMITS, OptionFields, PROMISED, SHARES, type OptionField } from "./options";

const SHAPES: ShapeKind[] = ["steady", "ramp", "wave", "burst", "step"];
const TITLES: Record<Workload, string> = {
  tpcc: "TPC-C, order entry",
  cpuio: "CPUIO, processor and scans",
  dvdstore: "DVD Store",
  tpch: "TPC-H, reports",
  pgbench: "pgbench",
};

function optionField({ name, default: ordinary, choices }: KnownOption): OptionField {
  return { key: name, label: name, hint: `${ordinary} if not said`, ...(choices ? { choices: ["", ...choices] } : {}) };
}

const input = (name: string, value: string | number, props: Record<string, string> = {}): HTMLInputElement =>
  h("input", { name, value, autocomplete: "off", spellcheck: "false", ...props });
const number = (name: string, value: number | string, min = "0"): HTMLInputElement =>
  input(name, value, { type: "number", min, step: "any" });

function pick<T extends string>(
  name: string,
  choices: readonly T[],
  chosen: T,
  title: (choice: T) => string = (choice) => choice,
): HTMLSelectElement {
  return h(
    "select",
    { name },
    ...choices.map((choice) => h("option", { value: choice, selected: choice === chosen }, title(choice))),
  );
}

/** `group`: the one to be changed, null for a new one. */
export function openGroup(group: ClientGroup | null, workloads: readonly WorkloadOptions[]): void {
  const name = input("name", group?.name ?? "", { required: "" });
  const prefix = input("tenant_prefix", group?.tenant_prefix ?? "", { required: "" });
  const tenants = number("tenants", group?.tenants ?? 1, "1");
  const clients = number("clients", group?.clients ?? 1, "1");
  const rate = number("rate", group?.rate ?? "");
  const workload = pick(
    "workload",
    workloads.map((one) => one.name),
    group?.workload ?? "tpcc",
    (kind) => TITLES[kind],
  );
  const kind = pick("shape", SHAPES, group?.shape.kind ?? "steady");
  const period = number("period_s", group?.shape.period_s ?? 60, "1");
  const low = number("low", group?.shape.low ?? 0);
  const high = number("high", group?.shape.high ?? 1);
  const shape = h(
    "div",
    { class: "fields fields-four" },
    field("Shape over time", kind),
    field("Period", period, "seconds"),
    field("From", low, "times the rate or clients"),
    field("To", high, "times the rate or clients"),
  );
  const showShape = (): void => [period, low, high].forEach((one) => (one.disabled = kind.value === "steady"));
  kind.addEventListener("change", showShape);
  showShape();

  // Each workload's own; what was said of another one is no option of this.
  const ofWorkload = h("div");
  let options = new OptionFields();
  const showOptions = (): void => {
    options = new OptionFields(workload.value === group?.workload ? group.options : {});
    const known = workloads.find((one) => one.name === workload.value)?.options ?? [];
    replace(ofWorkload, options.group("Size and options of the workload", known.map(optionField)));
  };
  workload.addEventListener("change", showOptions);
  showOptions();

  const promises = new OptionFields(group?.promises ?? {});
  const promiseFields = [
    promises.group("Promised to each tenant", PROMISED),
    promises.group("At most", LIMITS, false),
    promises.group("Shares and penalty", SHARES, false),
  ];
  const kept = Object.entries(group?.promises ?? {}).filter(([key]) => !promises.has(key));

  const outcome = h("div", { class: "dialog-outcome" });
  const title = group === null ? "Add a client group" : `Change ${group.name}`;
  const close = h(
    "button",
    { type: "button", class: "button-icon", "aria-label": "Close", onclick: () => dialog.close() },
    icon("close"),
  );
  const form = h(
    "form",
    { method: "dialog", class: "dialog-form" },
    h("header", { class: "dialog-head" }, h("h2", { id: "group-title" }, title), close),
    h(
      "div",
      { class: "dialog-body" },
      h(
        "div",
        { class: "fields" },
        field("Name", name),
        field("Workload", workload),
        field("Tenants named", prefix, "this, with 1, 2, … behind"),
        field("How many tenants", tenants),
        field("Clients for each", clients),
        field("Rate for each", rate, "transactions a second; empty: no limit"),
      ),
      shape,
      ofWorkload,
      ...promiseFields,
    ),
    outcome,
    h(
      "footer",
      { class: "dialog-foot" },
      h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel"),
      h("button", { type: "submit", class: "button button-primary" }, group === null ? "Add group" : "Change group"),
    ),
  );
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "group-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body: Partial<ClientGroup> = {
      name: name.value.trim(),
      tenant_prefix: prefix.value.trim(),
      tenants: Number(tenants.value),
      clients: Number(clients.value),
      workload: workload.value as Workload,
      rate: rate.value === "" ? null : Number(rate.value),
      shape: { kind: kind.value as ShapeKind, period_s: Number(period.value), low: Number(low.value), high: Number(high.value) },
      options: typed(options.all()),
      promises: typed({ ...Object.fromEntries(kept), ...promises.all() }),
    };
    try {
      stream.demo.set(await (group === null ? client.addGroup(body) : client.changeGroup(group.id, body)));
      dialog.close();
    } catch (error) {
      replace(outcome, errorBox(error));
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
