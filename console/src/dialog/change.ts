/** The dialogs for tenants, sizes, volumes, rules and the server. */
import type { Options, OptionText, Row, Server } from "../api/types";
import { h } from "../dom";
import { client, refreshServer, server } from "../store";
import { openChange } from "./dialog";
import { inTurn } from "./in_turn";
import { field, LIMITS, OptionFields, PROMISED, RULE, SHARES } from "./options";

type Done = () => void;

function textInput(props: Record<string, string>): HTMLInputElement {
  return h("input", { autocomplete: "off", spellcheck: "false", ...props });
}

async function sizeChoices(selected: string | null, none: string): Promise<HTMLSelectElement> {
  const { rows } = await client.sizes();
  return h(
    "select",
    { name: "size" },
    h("option", { value: "", selected: selected === null }, none),
    ...rows.map((row) =>
      h("option", { value: String(row["name"]), selected: row["name"] === selected }, `${row["name"]} (${sizeText(row)})`),
    ),
  );
}

function sizeText(row: Row): string {
  return ["cpu", "iops", "memory"]
    .filter((key) => row[key] !== null && row[key] !== undefined)
    .map((key) => `${key} ${row[key]}`)
    .join(", ");
}

export async function createTenant(done: Done): Promise<void> {
  const name = textInput({ name: "name", required: "", maxlength: "63" });
  const template = textInput({ name: "template", placeholder: "empty: a new, empty tenant" });
  const password = textInput({ name: "password", type: "password", autocomplete: "new-password" });
  // A copy has its template's roles and their passwords: the server refuses one that is given with it.
  const exclude = (): void => {
    password.disabled = template.value.trim() !== "";
    template.disabled = password.value !== "";
  };
  for (const input of [template, password]) input.addEventListener("input", exclude);
  const size = await sizeChoices(null, "none");
  const fields = new OptionFields();
  const request = (dry: boolean) => {
    if (name.value.trim() === "") return null;
    const options: Options = { ...fields.all(), ...(size.value === "" ? {} : { size: size.value }) };
    return client.createTenant(
      {
        name: name.value.trim(),
        options,
        ...(password.value === "" ? {} : { password: password.value }),
        ...(template.value.trim() === "" ? {} : { template: template.value.trim() }),
      },
      dry,
    );
  };
  openChange({
    title: "Create a tenant",
    run: "Create tenant",
    request,
    done,
    fields: [
      h(
        "div",
        { class: "fields" },
        field("Name", name),
        field("Size", size, "options in common with others"),
        field("Owner's password", password, "of the role of the same name; not for a copy"),
        field("Copy of tenant", template, "as it is now, with its roles and their passwords; not with a password given here"),
      ),
      fields.group("Promised, beyond the size", PROMISED, false),
      fields.group("At most", LIMITS, false),
      fields.group("Shares and penalty", SHARES, false),
    ],
  });
}

/** `proposed`: what is filled in beforehand, as the advisor proposes it. */
export async function alterTenant(
  name: string,
  options: Record<string, OptionText>,
  done: Done,
  proposed: Options = {},
): Promise<void> {
  const fields = new OptionFields(options);
  const before = typeof options["size"] === "string" ? options["size"] : null;
  const size = await sizeChoices(before, "none");
  const groups = [
    fields.group("Promised", PROMISED),
    fields.group("At most", LIMITS, false),
    fields.group("Shares and penalty", SHARES, false),
  ];
  for (const [key, value] of Object.entries(proposed)) {
    if (key === "size") size.value = String(value);
    else fields.set(key, String(value));
  }
  const changes = (): Options => ({
    ...fields.changes(),
    ...(size.value === (before ?? "") ? {} : { size: size.value === "" ? null : size.value }),
  });
  openChange({
    title: `Alter ${name}`,
    run: "Alter tenant",
    done,
    lead: "In force on every worker when the statement returns. An emptied field takes the option back, to the size's or the default.",
    fields: [h("div", { class: "fields" }, field("Size", size)), ...groups],
    request: (dry) => inTurn(changes(), (part) => client.alterTenant(name, { options: part }, dry)),
  });
}

export function moveTenant(name: string, home: number | null, done: Done): void {
  const workers = server.value?.workers ?? 1;
  const to = h(
    "select",
    { name: "worker" },
    h("option", { value: "default" }, "wherever the server finds best"),
    ...Array.from({ length: workers }, (_, i) =>
      h("option", { value: String(i), disabled: i === home }, `worker ${i}${i === home ? " (home now)" : ""}`),
    ),
  );
  openChange({
    title: `Move ${name}`,
    run: "Move tenant",
    done,
    lead: "Its sessions go along and notice nothing. The tenant then stays there whatever the load, until this is taken back.",
    fields: [h("div", { class: "fields" }, field("New home", to))],
    request: (dry) => client.alterTenant(name, { worker: to.value === "default" ? "default" : Number(to.value) }, dry),
  });
}

function typedName(what: string, name: string): { input: HTMLInputElement; matches: () => boolean } {
  const input = textInput({ name: "confirm", "aria-label": `Type ${name} to confirm`, placeholder: name });
  return { input: input, matches: () => input.value === name && what !== "" };
}

export function dropTenant(name: string, done: Done): void {
  const typed = typedName("tenant", name);
  openChange({
    title: `Drop ${name}`,
    run: "Drop tenant",
    danger: true,
    done,
    lead: "Its database, its roles and its files are gone when the statement returns. Only a backup brings them back.",
    fields: [h("div", { class: "fields" }, field(`Type “${name}” to confirm`, typed.input))],
    ready: typed.matches,
    request: (dry) => client.dropTenant(name, dry),
  });
}

export function createSize(done: Done): void {
  const name = textInput({ name: "name", required: "" });
  const fields = new OptionFields();
  openChange({
    title: "Create a size",
    run: "Create size",
    done,
    fields: [
      h("div", { class: "fields" }, field("Name", name)),
      fields.group("Promised", PROMISED),
      fields.group("At most", LIMITS, false),
      fields.group("Shares and penalty", SHARES, false),
    ],
    request: (dry) =>
      name.value.trim() === "" || Object.keys(fields.all()).length === 0
        ? null
        : client.createSize({ name: name.value.trim(), options: fields.all() }, dry),
  });
}

export function alterSize(name: string, before: Row, done: Done): void {
  const fields = new OptionFields(before);
  openChange({
    title: `Alter size ${name}`,
    run: "Alter size",
    done,
    lead: "Changes every tenant of this size at once, or none.",
    fields: [
      fields.group("Promised", PROMISED),
      fields.group("At most", LIMITS, false),
      fields.group("Shares and penalty", SHARES, false),
    ],
    request: (dry) => inTurn(fields.changes(), (part) => client.alterSize(name, part, dry)),
  });
}

export function dropSize(name: string, done: Done): void {
  openChange({
    title: `Drop size ${name}`,
    run: "Drop size",
    danger: true,
    done,
    lead: "Refused while a tenant has it.",
    fields: [],
    request: (dry) => client.dropSize(name, dry),
  });
}

export function alterVolume(name: string, limit: number | null, done: Done): void {
  const fields = new OptionFields({ iops_limit: limit });
  openChange({
    title: `Limit volume ${name}`,
    run: "Alter volume",
    done,
    lead: "I/Os a second of all tenants together. Empty: no limit.",
    fields: [fields.group("Limit", [{ key: "iops_limit", label: "I/Os a second", hint: "of 64 KiB or less" }])],
    request: (dry) => inTurn(fields.changes(), (part) => client.alterVolume(name, part, dry)),
  });
}

export function createRule(done: Done): void {
  const name = textInput({ name: "name", required: "" });
  const tenant = textInput({ name: "tenant", placeholder: "all tenants" });
  const fields = new OptionFields();
  const group = fields.group("When a statement takes more than", RULE);
  const thresholds = (): Options => fields.all();
  openChange({
    title: "Create a runaway rule",
    run: "Create rule",
    done,
    lead: "Any one of the thresholds is enough. It concerns what runs already, too.",
    fields: [h("div", { class: "fields" }, field("Name", name), field("Tenant", tenant)), group],
    request: (dry) =>
      name.value.trim() === "" || Object.keys(thresholds()).every((key) => key === "action")
        ? null
        : client.createRule(
            {
              name: name.value.trim(),
              options: thresholds(),
              ...(tenant.value.trim() === "" ? {} : { tenant: tenant.value.trim() }),
            },
            dry,
          ),
  });
}

export function dropRule(name: string, done: Done): void {
  openChange({
    title: `Drop rule ${name}`,
    run: "Drop rule",
    danger: true,
    done,
    fields: [],
    request: (dry) => client.dropRule(name, dry),
  });
}

const SERVER_LEAD: Record<string, string> = {
  reservations: "Everything is kept: what is reserved, limits and weights.",
  max_only: "Limits and weights are kept; what is reserved is not.",
  best_effort: "Only weights are kept. The ledger goes on counting by what was promised, so it shows what this costs.",
};

export function alterPolicy(policy: string): void {
  openChange({
    title: `Switch the policy to ${policy}`,
    run: "Switch policy",
    lead: SERVER_LEAD[policy],
    fields: [],
    request: (dry) => client.alterServer({ policy }, dry),
    done: () => void refreshServer(),
  });
}

export function alterOverbooking(overbooking: string): void {
  const lead =
    "Who falls short while more is wanted than there is: in proportion to what was promised, or who is owed the least for it first.";
  openChange({
    title: `Switch overbooking to ${overbooking}`,
    run: "Switch overbooking",
    lead,
    fields: [],
    request: (dry) => client.alterServer({ overbooking }, dry),
    done: () => void refreshServer(),
  });
}

export function alterServer(now: Server): void {
  const known = typeof now.overbooking === "string" ? now.overbooking : String(now.overbooking);
  const fields = new OptionFields({ overbooking: known, metering_interval: `${now.metering_interval_ms}ms` });
  openChange({
    title: "Alter the server",
    run: "Alter server",
    done: () => void refreshServer(),
    fields: [
      fields.group("Options", [
        { key: "overbooking", label: "Overbooking", hint: "spread, least_penalty, or 0 to 1 between them" },
        { key: "metering_interval", label: "Metering interval", hint: "100ms to 60s" },
      ]),
    ],
    request: (dry) => inTurn(fields.changes(), (part) => client.alterServer(part, dry)),
  });
}
