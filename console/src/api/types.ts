/** What the server's HTTP interface answers; `GET /api` on the server is the OpenAPI document of the same. */

export type Nullable<T> = T | null;

export interface Session {
  user: string;
  role: "administrator" | "viewer";
  csrf: string;
  expires_ms: number;
}

export interface ErrorBody {
  code: string;
  message: string;
  detail: Nullable<string>;
  hint: Nullable<string>;
}

export type Policy = "reservations" | "max_only" | "best_effort";

export interface Volume {
  name: string;
  iops_limit: Nullable<number>;
  calibrated_iops: Nullable<number>;
  calibration: "fresh" | "stale" | "none";
  promised_iops: number;
}

export interface Server {
  version: string;
  started_ms: number;
  now_ms: number;
  workers: number;
  cores: number;
  memory_bytes: number;
  work_memory_bytes: number;
  tenants: number;
  sessions: number;
  policy: Policy;
  overbooking: string | number;
  metering_interval_ms: number;
  promised: { cpu: number; memory_bytes: number; work_memory_bytes: number };
  volumes: Volume[];
  demo: boolean;
}

export interface Tenant {
  id: number;
  name: string;
  size: Nullable<string>;
  worker: Nullable<number>;
  open: boolean;
  cpu_promised: Nullable<number>;
  cpu_max: Nullable<number>;
  cpu: Nullable<number>;
  cpu_demanded: Nullable<number>;
  iops_promised: Nullable<number>;
  iops_max: Nullable<number>;
  iops: Nullable<number>;
  iops_demanded: Nullable<number>;
  memory_promised_bytes: Nullable<number>;
  memory_max_bytes: Nullable<number>;
  memory_bytes: Nullable<number>;
  broken_hour: Nullable<number>;
  statements_per_s: Nullable<number>;
  p50_ms: Nullable<number>;
  p99_ms: Nullable<number>;
  sessions: Nullable<number>;
  disk_bytes: Nullable<number>;
}

export type TenantColumn = keyof Tenant;
export type Order = "asc" | "desc";

export interface TenantPage {
  total: number;
  matched: number;
  offset: number;
  rows: Tenant[];
}

export type OptionText = string | number | boolean | null;

export interface TenantDetail extends Tenant {
  options: Record<string, OptionText>;
  cache_curve: { bytes: number; hit_ratio: number }[];
  waits: { wait: string; seconds: number; count: number }[];
}

export interface TenantSession {
  pid: number;
  user: Nullable<string>;
  application_name: Nullable<string>;
  client: Nullable<string>;
  state: Nullable<string>;
  wait_event: Nullable<string>;
  query: Nullable<string>;
  query_start_ms: Nullable<number>;
  transaction_start_ms: Nullable<number>;
}

export type StatementOrder = "cpu" | "io" | "calls";

export interface TopStatement {
  query: string;
  calls: number;
  cpu_seconds: Nullable<number>;
  ios: Nullable<number>;
  rows: Nullable<number>;
  mean_ms: Nullable<number>;
  max_ms: Nullable<number>;
}

export interface Lock {
  pid: number;
  relation: Nullable<string>;
  mode: string;
  granted: boolean;
  blocked_by: number[];
}

/** A row of `rowhouse.advise`, `SHOW SIZES` or `SHOW RUNAWAY RULES`: columns as the server names them. */
export type Row = Record<string, OptionText | string[]>;

export type Resource = "cpu" | "io" | "memory" | "work_memory";
export type Cause = "overbooked" | "device" | "system" | "neighbour";

export interface LedgerRow {
  tenant: string;
  resource: Resource;
  volume: Nullable<string>;
  began_ms: number;
  ended_ms: number;
  active_s: Nullable<number>;
  promised: Nullable<number>;
  demanded: Nullable<number>;
  given: Nullable<number>;
  missed: Nullable<number>;
  over: Nullable<number>;
  cause: Nullable<string>;
  delay_p99_s: Nullable<number>;
  delay_max_s: Nullable<number>;
  owed: Nullable<number>;
}

export interface LedgerFilter {
  tenant?: string;
  resource?: string;
  cause?: string;
  from_ms?: number;
  to_ms?: number;
  broken?: boolean;
  granularity?: "interval" | "minute";
}

export interface Report {
  tenant: string;
  month: string;
  from_ms: number;
  to_ms: number;
  recorded_from_ms: Nullable<number>;
  resources: {
    resource: Resource;
    volume: Nullable<string>;
    intervals: number;
    broken: number;
    promised: Nullable<number>;
    demanded: Nullable<number>;
    given: Nullable<number>;
    missed: Nullable<number>;
    owed: Nullable<number>;
    causes: { cause: string; broken: number; missed: Nullable<number> }[];
    worst: { began_ms: number; minutes: number; missed: Nullable<number>; cause: Nullable<string> }[];
  }[];
  owed: Nullable<number>;
}

/** One resource of a frame: `values` go with the frame's `tenants`, `others` is all the rest. */
export interface FrameSeries {
  capacity?: Nullable<number>;
  total: number;
  values: number[];
  others: number;
}

export interface PromiseFrame {
  promised: Nullable<number>;
  max: Nullable<number>;
  given: Nullable<number>;
  demanded: Nullable<number>;
  missed: Nullable<number>;
  cause: Nullable<string>;
}

export interface TenantFrame {
  name: string;
  cpu: PromiseFrame;
  io: (PromiseFrame & { volume: string })[];
  memory: {
    promised_bytes: Nullable<number>;
    max_bytes: Nullable<number>;
    resident_bytes: Nullable<number>;
    demanded: Nullable<number>;
    given: Nullable<number>;
    missed: Nullable<number>;
    cause: Nullable<string>;
  };
  work_memory: {
    promised_bytes: Nullable<number>;
    used_bytes: Nullable<number>;
    missed: Nullable<number>;
    cause: Nullable<string>;
  };
  statements_per_s: Nullable<number>;
  p50_ms: Nullable<number>;
  p99_ms: Nullable<number>;
  sessions: Nullable<number>;
  waits: Record<string, number>;
}

export interface Frame {
  t_ms: number;
  tenants: [id: number, name: string][];
  cpu: FrameSeries;
  volumes: (FrameSeries & { name: string })[];
  memory: FrameSeries;
  throughput: FrameSeries;
  /** Statements a second of every tenant that ran some, most first, as far as the server tells them. */
  lines: [id: number, rate: number][];
  sessions: number;
  broken: Record<Resource, number>;
  tenant?: TenantFrame | null;
}

export type ChangedWhat = "tenants" | "sizes" | "server" | "volumes" | "rules";

export interface Notice {
  severity: string;
  message: string;
  detail: Nullable<string>;
}

export interface ChangeResult {
  sql: string;
  notices?: Notice[];
  done?: boolean;
}

export type Options = Record<string, OptionText>;

export type Workload = "tpcc" | "cpuio" | "dvdstore" | "tpch" | "pgbench";
export type ShapeKind = "steady" | "ramp" | "wave" | "burst" | "step";

export interface ClientGroup {
  id: string;
  name: string;
  tenant_prefix: string;
  tenants: number;
  clients: number;
  workload: Workload;
  options: Options;
  /** Transactions a second for each tenant. */
  rate: Nullable<number>;
  /** Options of ALTER TENANT for each tenant. */
  promises: Options;
  shape: { kind: ShapeKind; period_s: number; low: number; high: number };
  state: "loading" | "running" | "stopped" | "failed";
  error: Nullable<string>;
  throughput: Nullable<number>;
  p99_ms: Nullable<number>;
}

export interface KnownOption {
  name: string;
  default: string | number;
  choices?: string[];
}

export interface WorkloadOptions {
  name: Workload;
  options: KnownOption[];
}

export interface Demo {
  stories: { id: string; title: string; text: string; minutes: number }[];
  running: Nullable<{
    story: string;
    began_ms: number;
    /** Seconds of the story that have passed, and that it takes. */
    at_s: number;
    length_s: number;
    /** Its time stands still until its tenants are there. */
    is_loading: boolean;
    step: number;
    steps: { at_s: number; text: string }[];
    speed: number;
    paused: boolean;
  }>;
  groups: ClientGroup[];
  workloads: WorkloadOptions[];
}
