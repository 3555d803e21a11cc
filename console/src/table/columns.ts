/** The columns of the table of tenants. */
import type { Tenant, TenantColumn } from "../api/types";
import { bytes, cores, count, millis, whole } from "../format";

export interface Column {
  key: TenantColumn;
  group: string;
  label: string;
  width: number;
  text: (tenant: Tenant) => string;
  /** Used of promised, from 0 to 1, drawn below the figure; null draws nothing. */
  meter?: (tenant: Tenant) => number | null;
  /** First order when the head is clicked. */
  descending?: boolean;
}

function ratio(used: number | null, promised: number | null): number | null {
  return used === null || promised === null || promised === 0 ? null : Math.min(1, used / promised);
}

export const COLUMNS: readonly Column[] = [
  { key: "name", group: "", label: "Tenant", width: 0, text: (tenant) => tenant.name },
  { key: "size", group: "", label: "Size", width: 76, text: (tenant) => tenant.size ?? "–" },
  {
    key: "cpu_promised",
    group: "CPU cores",
    label: "promised",
    width: 78,
    text: (tenant) => cores(tenant.cpu_promised),
    descending: true,
  },
  {
    key: "cpu",
    group: "CPU cores",
    label: "used",
    width: 66,
    text: (tenant) => cores(tenant.cpu),
    meter: (tenant) => ratio(tenant.cpu, tenant.cpu_promised),
    descending: true,
  },
  {
    key: "cpu_demanded",
    group: "CPU cores",
    label: "wanted",
    width: 70,
    text: (tenant) => cores(tenant.cpu_demanded),
    descending: true,
  },
  {
    key: "iops_promised",
    group: "IOPS",
    label: "promised",
    width: 78,
    text: (tenant) => count(tenant.iops_promised),
    descending: true,
  },
  {
    key: "iops",
    group: "IOPS",
    label: "used",
    width: 66,
    text: (tenant) => count(tenant.iops && Math.round(tenant.iops)),
    meter: (tenant) => ratio(tenant.iops, tenant.iops_promised),
    descending: true,
  },
  {
    key: "iops_demanded",
    group: "IOPS",
    label: "wanted",
    width: 70,
    text: (tenant) => count(tenant.iops_demanded && Math.round(tenant.iops_demanded)),
    descending: true,
  },
  {
    key: "memory_promised_bytes",
    group: "Memory",
    label: "promised",
    width: 86,
    text: (tenant) => bytes(tenant.memory_promised_bytes),
    descending: true,
  },
  {
    key: "memory_bytes",
    group: "Memory",
    label: "resident",
    width: 86,
    text: (tenant) => bytes(tenant.memory_bytes),
    meter: (tenant) => ratio(tenant.memory_bytes, tenant.memory_promised_bytes),
    descending: true,
  },
  {
    key: "broken_hour",
    group: "Broken",
    label: "last hour",
    width: 78,
    text: (tenant) => whole(tenant.broken_hour),
    descending: true,
  },
  {
    key: "statements_per_s",
    group: "Statements",
    label: "per s",
    width: 82,
    text: (tenant) => count(tenant.statements_per_s && Math.round(tenant.statements_per_s)),
    descending: true,
  },
  { key: "p50_ms", group: "Latency", label: "p50", width: 76, text: (tenant) => millis(tenant.p50_ms), descending: true },
  { key: "p99_ms", group: "Latency", label: "p99", width: 76, text: (tenant) => millis(tenant.p99_ms), descending: true },
  { key: "sessions", group: "", label: "Sessions", width: 74, text: (tenant) => whole(tenant.sessions), descending: true },
  { key: "disk_bytes", group: "", label: "Disk", width: 82, text: (tenant) => bytes(tenant.disk_bytes), descending: true },
  {
    key: "worker",
    group: "",
    label: "Worker",
    width: 66,
    text: (tenant) => (tenant.worker === null ? "–" : String(tenant.worker)),
  },
];

/** Without the first column, whose width the style says. */
export const TABLE_WIDTH = COLUMNS.slice(1).reduce((sum, column) => sum + column.width, 0);
