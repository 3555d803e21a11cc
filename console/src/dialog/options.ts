/** Fields for the options of tenants, sizes, rules and volumes. Values are text as SQL takes it; an emptied field takes the option back. */
import type { Options, OptionText } from "../api/types";
import { h, type Child } from "../dom";

export interface OptionField {
  key: string;
  label: string;
  /** Unit, or what the text looks like. */
  hint: string;
  choices?: readonly string[];
}

export const PROMISED: readonly OptionField[] = [
  { key: "cpu", label: "CPU", hint: "cores, as 0.5" },
  { key: "iops", label: "I/O", hint: "I/Os a second of 64 KiB" },
  { key: "memory", label: "Buffer memory", hint: "as 256MB" },
  { key: "work_memory", label: "Working memory", hint: "as 64MB" },
  { key: "io_bandwidth", label: "Bandwidth", hint: "bytes a second, as 20MB" },
];
export const LIMITS: readonly OptionField[] = [
  { key: "cpu_max", label: "CPU", hint: "cores, or none" },
  { key: "iops_max", label: "I/O", hint: "I/Os a second, or none" },
  { key: "memory_max", label: "Buffer memory", hint: "as 1GB, or none" },
  { key: "work_memory_max", label: "Working memory", hint: "as 256MB, or none" },
  { key: "io_bandwidth_max", label: "Bandwidth", hint: "bytes a second, or none" },
  { key: "storage_max", label: "Storage", hint: "as 20GB, or none" },
  { key: "temp_max", label: "Temporary files", hint: "as 2GB, or none" },
  { key: "connections_max", label: "Sessions", hint: "at a time, or none" },
  { key: "statement_timeout", label: "Longest statement", hint: "as 30s, or none" },
];
export const SHARES: readonly OptionField[] = [
  { key: "cpu_weight", label: "CPU weight", hint: "share of spare time; 100 if not said" },
  { key: "cpu_burst", label: "CPU credit", hint: "unused promise kept, as 10s" },
  { key: "io_weight", label: "I/O weight", hint: "100 if not said" },
  { key: "io_promise", label: "I/O promise of", hint: "each request, or their average", choices: ["", "each", "average"] },
  { key: "penalty", label: "Penalty", hint: "owed for each missed unit" },
];
export const RULE: readonly OptionField[] = [
  { key: "elapsed", label: "Elapsed", hint: "as 5min" },
  { key: "cpu", label: "Processor time", hint: "as 60s" },
  { key: "rows", label: "Rows looked at", hint: "a number" },
  { key: "io", label: "I/Os", hint: "a number" },
  { key: "action", label: "Then", hint: "what happens to the statement", choices: ["log", "deprioritise", "cancel"] },
];

let fieldsMade = 0;

/** A label, its input and, as its description, a hint. */
export function field(label: string, input: HTMLElement, hint = ""): HTMLElement {
  fieldsMade += 1;
  const id = `field-${fieldsMade}`;
  input.id = id;
  if (hint !== "") input.setAttribute("aria-describedby", `${id}-hint`);
  return h(
    "div",
    { class: "field" },
    h("label", { class: "field-label", for: id }, label),
    input,
    hint === "" ? null : h("span", { class: "field-hint", id: `${id}-hint` }, hint),
  );
}

export class OptionFields {
  readonly #inputs = new Map<string, { input: HTMLInputElement | HTMLSelectElement; before: string }>();

  /** `before`: what is in force now, shown in the fields; only what differs from it is a change. */
  constructor(readonly before: Record<string, OptionText | string[]> = {}) {}

  group(title: string, fields: readonly OptionField[], open = true): HTMLElement {
    const all: Child[] = fields.map((one) => {
      const value = this.before[one.key];
      const text = value === null || value === undefined ? "" : String(value);
      const input = one.choices
        ? h(
            "select",
            { name: one.key },
            ...one.choices.map((choice) =>
              h("option", { value: choice, selected: choice === text }, choice === "" ? "–" : choice),
            ),
          )
        : h("input", { name: one.key, value: text, autocomplete: "off", spellcheck: "false", placeholder: "–" });
      this.#inputs.set(one.key, { input, before: text });
      return field(one.label, input, one.hint);
    });
    return h("details", { class: "field-group", open }, h("summary", null, title), h("div", { class: "fields" }, ...all));
  }

  /** Whether there is a field of this option. */
  has(key: string): boolean {
    return this.#inputs.has(key);
  }
  /** What was changed in the fields: text, or null for an option taken back. */
  changes(): Options {
    const options: Options = {};
    for (const [key, { input, before }] of this.#inputs) {
      const now = input.value.trim();
      if (now !== before) options[key] = now === "" ? null : now;
    }
    return options;
  }
  /** All that is said in the fields. */
  all(): Options {
    const options: Options = {};
    for (const [key, { input }] of this.#inputs) if (input.value.trim() !== "") options[key] = input.value.trim();
    return options;
  }
  set(key: string, value: string): void {
    const one = this.#inputs.get(key);
    if (one) one.input.value = value;
  }
}
