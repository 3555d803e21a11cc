/** Options as JSON has them. */
import type { Options, OptionText } from "./types";

/** Numbers as numbers, so that a file has them as one writes them; anything else, as `64MB`, `1-19,21` and `none`, stays text. */
export function typed(options: Options): Options {
  const one = (value: OptionText): OptionText =>
    typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
  return Object.fromEntries(Object.entries(options).map(([key, value]) => [key, one(value)]));
}
