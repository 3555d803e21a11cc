/** What to promise the tenant, by what is on record of it, and a button that does it. */
import type { Options, OptionText, Row, TenantDetail } from "../api/types";
import { alterTenant } from "../dialog/change";
import { h, type Disposal } from "../dom";
import { option } from "../format";
import { client, isAdministrator } from "../store";
import { button, loaded, panel, table } from "./parts";

const KEYS = ["cpu", "iops", "memory", "work_memory"] as const;

function proposal(row: Row): Options {
  if (row["size"] !== null && row["size"] !== undefined && String(row["candidate"]) !== "present")
    return { size: String(row["size"]) };
  return Object.fromEntries(
    KEYS.filter((key) => row[key] !== null && row[key] !== undefined).map((key) => [key, String(row[key])]),
  );
}

export function advisor(name: string, disposal: Disposal, detail: () => TenantDetail): HTMLElement {
  const { element, head, body } = panel("Advisor");
  const goal = h("input", {
    class: "input-small",
    inputmode: "decimal",
    placeholder: "none",
    "aria-label": "Goal for the 99th percentile, in milliseconds",
    size: "6",
  });
  const goalMs = (): number | null => (goal.value.trim() === "" || !(Number(goal.value) > 0) ? null : Number(goal.value));
  head.append(
    h("span", { class: "panel-note" }, "by what is on record of up to 62 days"),
    h("span", { class: "grow" }),
    h("label", { class: "inline-field" }, "p99 goal, ms", goal),
  );
  const list = loaded(
    body,
    disposal,
    null,
    async () => (await client.advise(name, goalMs())).rows,
    (rows) => {
      const note = rows.map((row) => row["note"]).find((text) => text !== null && text !== undefined && text !== "");
      return h(
        "div",
        null,
        table<Row>(
          "Advice",
          [
            { head: "Candidate", cell: (row) => h("strong", null, option(row["candidate"])) },
            { head: "Size", cell: (row) => option(row["size"]) },
            ...KEYS.map((key) => ({
              head: { cpu: "CPU cores", iops: "IOPS", memory: "Memory", work_memory: "Work memory" }[key],
              figure: true,
              cell: (row: Row) => option(row[key]),
            })),
            { head: "Enough", cell: (row) => verdict(row) },
            {
              head: "Intervals with CPU broken",
              figure: true,
              cell: (row) => range(row["cpu_broken_min"], row["cpu_broken_max"], row["cpu_intervals"]),
            },
            ...(isAdministrator()
              ? [
                  {
                    head: "",
                    cell: (row: Row) =>
                      String(row["candidate"]) === "present"
                        ? ""
                        : button(
                            "Apply",
                            () => void alterTenant(name, detail().options, () => list.again(), proposal(row)),
                            "button-small",
                          ),
                  },
                ]
              : []),
          ],
          rows,
          "Nothing is on record of this tenant yet.",
          (row) => (String(row["candidate"]).startsWith("proposed") ? "is-lit" : ""),
        ),
        note ? h("p", { class: "panel-note" }, String(note)) : null,
      );
    },
  );
  goal.addEventListener("change", () => {
    goal.blur();
    list.again();
  });
  return element;
}

function verdict(row: Row): HTMLElement {
  const enough = row["enough"];
  if (enough === true || enough === "t") return h("span", { class: "state state-active" }, "enough");
  if (enough === null || enough === undefined) return h("span", null, "–");
  return h("span", { class: "state state-held" }, `too little: ${option(row["too_little"])}`);
}

function range(
  low: OptionText | string[] | undefined,
  high: OptionText | string[] | undefined,
  of: OptionText | string[] | undefined,
): string {
  if (high === null || high === undefined) return "–";
  return `${option(low)} to ${option(high)} of ${option(of)}`;
}
