/** Figures as text, in units that fit their size. An unknown figure is an en dash. */

export const NONE = "–";
type Figure = number | null | undefined;

function known(value: Figure): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}

/** Three significant digits below a thousand, none after the point above. */
function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** `1234567` as `1,234,567`. */
export function whole(value: Figure): string {
  return known(value) ? Math.round(value).toLocaleString("en-US") : NONE;
}

/** Counts and rates: `950`, `12.3 k`, `4.56 M`. */
export function count(value: Figure): string {
  if (!known(value)) return NONE;
  for (const [unit, size] of [
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e4],
  ] as const) {
    if (Math.abs(value) >= size) return `${short(value / (unit === "k" ? 1e3 : size))} ${unit}`;
  }
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en-US");
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}

/** Cores: two decimals, three below a tenth where they say something. */
export function cores(value: Figure): string {
  if (!known(value)) return NONE;
  return value !== 0 && Math.abs(value) < 0.1 ? value.toFixed(3) : value.toFixed(2);
}

/** Binary units: `512 B`, `64 MiB`, `1.25 GiB`. */
export function bytes(value: Figure): string {
  if (!known(value)) return NONE;
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (Math.abs(size) < 1024 || unit === "TiB") return `${short(size)} ${unit}`;
    size /= 1024;
  }
  return NONE;
}

/** A time a client waits: `0.42 ms`, `85 ms`, `1.30 s`, `4 min`. */
export function millis(value: Figure): string {
  if (!known(value)) return NONE;
  if (value === 0) return "0 ms";
  if (value < 0.01) return `${short(value * 1000)} µs`;
  if (value < 1000) return `${short(value)} ms`;
  return seconds(value / 1000);
}

export function seconds(value: Figure): string {
  if (!known(value)) return NONE;
  if (value !== 0 && Math.abs(value) < 1) return millis(value * 1000);
  if (value < 120) return `${short(value)} s`;
  if (value < 7200) return `${short(value / 60)} min`;
  if (value < 172_800) return `${short(value / 3600)} h`;
  return `${short(value / 86_400)} d`;
}

export function percent(ratio: Figure): string {
  return known(ratio) ? `${(ratio * 100).toFixed(ratio > 0 && ratio < 0.1 ? 1 : 0)} %` : NONE;
}

const two = (value: number): string => String(value).padStart(2, "0");

/** `14:03:09`, in the reader's time zone. */
export function clock(t_ms: number): string {
  const date = new Date(t_ms);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** `2026-11-22 14:03:09`, in the reader's time zone. */
export function instant(t_ms: Figure): string {
  if (!known(t_ms)) return NONE;
  const date = new Date(t_ms);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(t_ms)}`;
}

/** As `instant`, by UTC as months are: for what is printed and read elsewhere. */
export function instantUtc(t_ms: Figure): string {
  return known(t_ms) ? new Date(t_ms).toISOString().slice(0, 19).replace("T", " ") : NONE;
}

/** The unit of a resource as the ledger counts it. */
export function ledgerUnit(resource: string): string {
  return resource === "cpu" ? "core-s" : "I/Os";
}

export function ledgerFigure(resource: string, value: Figure): string {
  if (!known(value)) return NONE;
  if (resource === "cpu")
    return value === 0
      ? "0"
      : value.toLocaleString("en-US", { minimumFractionDigits: 0, maximumFractionDigits: Math.abs(value) < 100 ? 3 : 1 });
  return Math.abs(value) < 10 ? String(Number(value.toFixed(2))) : count(Math.round(value));
}

/** What an option of a tenant says: bytes and the like come as numbers, limits that are not set as null. */
export function option(value: unknown): string {
  if (value === null || value === undefined) return NONE;
  if (Array.isArray(value)) return value.join(", ");
  return String(value);
}
