// The invented tenants of the development server: seeded, so that two runs draw the same.
import { change, options } from "./changes.mjs";
import { stories } from "./stories.mjs";

const CAUSES = ["neighbour", "overbooked", "device", "system"];
const WORDS = [
  "acme",
  "borealis",
  "cobalt",
  "delta",
  "ember",
  "fjord",
  "garnet",
  "harbor",
  "indigo",
  "juniper",
  "kestrel",
  "lumen",
  "meridian",
  "nimbus",
  "onyx",
  "pollen",
  "quartz",
  "river",
  "sable",
  "tundra",
  "umber",
  "vesper",
  "willow",
  "xenon",
  "yarrow",
  "zephyr",
];
const SIZES = { small: [0.05, 50, 64], medium: [0.2, 200, 256], large: [0.8, 800, 1024] };
const MIB = 1024 * 1024;
const CORES = 8;
const MEMORY = 16 * 1024 * MIB;
const RING = 600;

/** @typedef {Record<string, any>} Tenant */

/** A generator of numbers from 0 to 1 (mulberry32). @param {number} seed */
function draws(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export class World {
  /** @param {number} count @param {boolean} demo */
  constructor(count, demo) {
    this.draw = draws(7);
    this.isDemo = demo;
    /** @type {{ wanted: string, ms: number, rows: any[] }} */
    this.sorted = { wanted: "", ms: 0, rows: [] };
    this.started_ms = Date.now() - 3 * 86_400_000;
    this.server = { policy: "reservations", overbooking: "spread", metering_interval: "1s" };
    /** @type {Record<string, any>} */
    this.volumes = {
      default: { iops_limit: 24_000, calibrated_iops: 31_000, calibration: "fresh" },
      log: { iops_limit: null, calibrated_iops: 12_500, calibration: "stale" },
    };
    /** @type {Record<string, any>[]} */
    this.sizes = Object.entries(SIZES).map(([name, [cpu, iops, memory]]) => ({
      name,
      cpu: String(cpu),
      iops: String(iops),
      memory: `${memory}MiB`,
      work_memory: `${(memory ?? 0) / 4}MiB`,
    }));
    /** @type {Record<string, any>[]} */
    this.rules = [
      {
        name: "long_reports",
        tenant: null,
        elapsed: "5min",
        cpu: "60s",
        rows: null,
        io: null,
        action: "deprioritise",
        acted: 14,
      },
    ];
    /** @type {Map<string, Tenant>} */
    this.tenants = new Map();
    /** @type {number} */
    this.next = 1;
    this.add("system", {}, 0);
    for (let i = 0; i < count - 1; i += 1) {
      const word = WORDS[i % WORDS.length] ?? "";
      const name = i < WORDS.length ? word : `${word}_${String(Math.floor(i / WORDS.length)).padStart(3, "0")}`;
      const size = this.draw() < 0.8 ? "small" : this.draw() < 0.8 ? "medium" : "large";
      this.add(name, { size: i < 20 ? "large" : size }, undefined, i < 22 ? 1 : this.draw() < 0.02 ? 0.01 : 0);
    }
    const now = Date.now();
    /** @type {any[]} */
    this.history = [];
    for (let s = RING; s > 0; s -= 1) this.history.push(this.step(now - s * 1000));
    /** @type {any[]} */
    this.ledger = this.pastLedger(now);
    this.stories = stories(now);
  }

  /** @param {string} name @param {Record<string, any>} given @param {number} [id] @param {number} [busy] @returns {Tenant} */
  add(name, given, id = this.next++, busy = 0) {
    const [cpu = 0, iops = 0, memory = 0] = SIZES[/** @type {keyof typeof SIZES} */ (given.size)] ?? [];
    const tenant = {
      id,
      name,
      given,
      busy,
      phase: this.draw() * 60,
      strength: 0.2 + 2.2 * this.draw() ** 2,
      worker: id % CORES,
      cpu_promised: Number(given.cpu ?? (id === 0 ? 1.6 : cpu)),
      iops_promised: Number(given.iops ?? iops),
      memory_promised_bytes: memory * MIB,
      memory_bytes: (0.2 + this.draw()) * memory * MIB * 0.45,
      disk_bytes: (0.2 + this.draw() * 40) * memory * MIB,
      broken_hour: busy > 0.5 ? Math.floor(this.draw() * 60) : 0,
      cpu: 0,
      cpu_demanded: 0,
      iops: 0,
      iops_demanded: 0,
      statements: 0,
      p50: 0,
      p99: 0,
      cause: null,
      missed: 0,
      sessions: busy > 0 ? 1 + Math.floor(this.draw() * 40) : 0,
    };
    this.tenants.set(name, tenant);
    return tenant;
  }

  /** One second of everybody. @param {number} t_ms */
  step(t_ms) {
    const t = t_ms / 1000;
    const active = [...this.tenants.values()].filter((tenant) => tenant.busy > 0 || tenant.id === 0);
    let wanted = 0;
    for (const one of active) {
      const wave = 0.6 + 0.4 * Math.sin((t + one.phase) / 21) + 0.25 * this.draw();
      const noisy = one.name === "cobalt" && t % 180 < 70 ? 4.5 : 1;
      one.cpu_demanded = one.id === 0 ? 0.25 + 0.1 * this.draw() : 0.45 * one.strength * wave * one.busy * noisy;
      wanted += one.cpu_demanded;
    }
    const keeps = this.server.policy === "reservations";
    const scale = Math.min(1, CORES / wanted);
    for (const one of active) {
      const fair = one.cpu_demanded * scale * 0.97;
      one.cpu = keeps ? Math.min(one.cpu_demanded, fair) : fair;
      one.missed = Math.max(0, Math.min(one.cpu_promised, one.cpu_demanded) - one.cpu);
      if (one.missed < 0.005) one.missed = this.draw() < 0.012 ? 0.02 + 0.05 * this.draw() : 0;
      one.cause = one.missed > 0 ? (keeps ? CAUSES[Math.floor(this.draw() * CAUSES.length)] : "overbooked") : null;
      const got = one.cpu_demanded === 0 ? 1 : one.cpu / one.cpu_demanded;
      one.iops_demanded = one.cpu_demanded * (300 + 900 * ((one.phase % 7) / 7));
      one.iops = one.iops_demanded * got;
      one.memory_bytes = Math.max(4 * MIB, one.memory_bytes + (this.draw() - 0.48) * 6 * MIB * one.busy);
      one.statements = one.id === 0 ? 0 : one.cpu * (2600 + 90 * one.phase);
      one.p50 = 0.35 + 0.6 / Math.max(0.05, got) + 0.1 * this.draw();
      one.p99 = one.p50 * (4 + 6 * (1 - got)) + 2 * this.draw();
    }
    const total = (/** @type {string} */ key) => active.reduce((sum, one) => sum + one[key], 0);
    return {
      t_ms,
      active: active.map((one) => ({
        id: one.id,
        name: one.name,
        cpu: one.cpu,
        iops: one.iops,
        log: one.iops * 0.3,
        memory: one.memory_bytes,
        statements: one.statements,
        now: this.promised(one),
      })),
      totals: {
        cpu: total("cpu"),
        iops: total("iops"),
        memory: total("memory_bytes") + 400 * MIB,
        statements: total("statements"),
      },
      sessions: total("sessions"),
      broken: { cpu: active.filter((one) => one.missed > 0).length, io: 0, memory: 1, work_memory: 0 },
    };
  }

  /** @param {Tenant} one */
  promised(one) {
    const io_missed = one.missed > 0.04 ? one.missed * 900 : 0;
    return {
      name: one.name,
      cpu: {
        promised: one.cpu_promised,
        max: one.given.cpu_max ? Number(one.given.cpu_max) : null,
        given: one.cpu,
        demanded: one.cpu_demanded,
        missed: one.missed,
        cause: one.cause,
      },
      io: [
        {
          volume: "default",
          promised: one.iops_promised,
          max: null,
          given: one.iops,
          demanded: one.iops_demanded,
          missed: io_missed,
          cause: io_missed > 0 ? "device" : null,
        },
        {
          volume: "log",
          promised: null,
          max: null,
          given: one.iops * 0.3,
          demanded: one.iops_demanded * 0.3,
          missed: 0,
          cause: null,
        },
      ],
      memory: {
        promised_bytes: one.memory_promised_bytes,
        max_bytes: null,
        resident_bytes: one.memory_bytes,
        demanded: 120,
        given: 100,
        missed: one.missed > 0.05 ? 20 : 0,
        cause: one.missed > 0.05 ? "neighbour" : null,
      },
      work_memory: {
        promised_bytes: one.memory_promised_bytes / 4,
        used_bytes: one.memory_promised_bytes / 16,
        missed: 0,
        cause: null,
      },
      statements_per_s: one.statements,
      p50_ms: one.p50,
      p99_ms: one.p99,
      sessions: one.sessions,
      waits: {
        running: one.cpu,
        runnable: 0.2 * one.strength,
        "own cap": 0,
        "page read": 0.4,
        "log flush": 0.9 * one.strength,
        lock: 0.15,
        memory: 0,
        client: 3.5,
      },
    };
  }

  tick() {
    const step = this.step(Date.now());
    this.history.push(step);
    if (this.history.length > RING) this.history.shift();
    return step;
  }

  /** A frame as one stream asked for it. @param {any} step @param {URLSearchParams} query */
  framed(step, query) {
    const watched = new Set((query.get("watch") ?? "").split(","));
    const ranked = [...step.active].sort((a, b) => b.cpu - a.cpu);
    const top = new Set(ranked.slice(0, Number(query.get("top") ?? 12)));
    const shown = ranked.filter((one) => top.has(one) || watched.has(one.name));
    const of = (/** @type {string} */ key, /** @type {number} */ total, /** @type {number | null} */ capacity) => {
      const values = shown.map((one) => one[key]);
      return { capacity, total, values, others: Math.max(0, total - values.reduce((sum, value) => sum + value, 0)) };
    };
    const name = query.get("tenant");
    const { totals } = step;
    return {
      t_ms: step.t_ms,
      tenants: shown.map((one) => [one.id, one.name]),
      cpu: of("cpu", totals.cpu, CORES),
      volumes: [
        { name: "default", ...of("iops", totals.iops, 24_000) },
        { name: "log", ...of("log", totals.iops * 0.3, 12_500) },
      ],
      memory: of("memory", totals.memory, MEMORY),
      throughput: of("statements", totals.statements, null),
      lines: ranked
        .filter((one) => one.statements > 0)
        .sort((a, b) => b.statements - a.statements)
        .slice(0, Number(query.get("lines") ?? 0))
        .map((one) => [one.id, one.statements]),
      sessions: step.sessions,
      broken: step.broken,
      ...(name === null ? {} : { tenant: step.active.find((/** @type {any} */ one) => one.name === name)?.now ?? null }),
    };
  }

  /** @param {string} user @param {string} role */
  session(user, role) {
    return { user, role, csrf: "csrf", expires_ms: Date.now() + 1_800_000 };
  }

  serverNow() {
    const all = [...this.tenants.values()];
    const promised = (/** @type {string} */ key) => all.reduce((sum, one) => sum + one[key], 0);
    return {
      version: "0.0.0-mock",
      started_ms: this.started_ms,
      now_ms: Date.now(),
      workers: CORES,
      cores: CORES,
      memory_bytes: MEMORY,
      work_memory_bytes: MEMORY / 4,
      tenants: all.length,
      sessions: this.history.at(-1).sessions,
      policy: this.server.policy,
      overbooking: this.server.overbooking,
      metering_interval_ms: 1000,
      promised: { cpu: 6.9, memory_bytes: MEMORY * 0.8, work_memory_bytes: MEMORY * 0.2 },
      volumes: Object.entries(this.volumes).map(([name, volume]) => ({
        name,
        ...volume,
        promised_iops: Math.round(Math.min(20_000, promised("iops_promised"))),
      })),
      demo: this.isDemo,
    };
  }

  /** @param {Tenant} one */
  row(one) {
    return {
      id: one.id,
      name: one.name,
      size: one.given.size ?? null,
      worker: one.worker,
      open: one.busy > 0,
      cpu_promised: one.cpu_promised,
      cpu_max: one.given.cpu_max ? Number(one.given.cpu_max) : null,
      cpu: one.cpu,
      cpu_demanded: one.cpu_demanded,
      iops_promised: one.iops_promised,
      iops_max: null,
      iops: one.iops,
      iops_demanded: one.iops_demanded,
      memory_promised_bytes: one.memory_promised_bytes,
      memory_max_bytes: null,
      memory_bytes: one.memory_bytes,
      broken_hour: one.broken_hour,
      statements_per_s: one.statements,
      p50_ms: one.busy ? one.p50 : null,
      p99_ms: one.busy ? one.p99 : null,
      sessions: one.sessions,
      disk_bytes: one.disk_bytes,
    };
  }

  /** @param {number} now @returns {any[]} */
  pastLedger(now) {
    const busy = [...this.tenants.values()].filter((one) => one.busy > 0.5);
    return Array.from({ length: 2400 }, (_, i) => {
      const one = busy[Math.floor(this.draw() * busy.length)] ?? busy[0];
      const resource = ["cpu", "io", "memory"][Math.floor(this.draw() * 3)];
      const broken = this.draw() < 0.35;
      const demanded = resource === "cpu" ? 0.2 + this.draw() : 50 + 400 * this.draw();
      const missed = broken ? demanded * 0.2 * this.draw() : 0;
      return {
        tenant: one?.name,
        resource,
        volume: resource === "io" ? "default" : null,
        began_ms: now - (i + 1) * 1500,
        ended_ms: now - (i + 1) * 1500 + 1000,
        active_s: this.draw(),
        promised: demanded * 0.9,
        demanded,
        given: demanded - missed,
        missed,
        over: 0,
        cause: broken ? CAUSES[Math.floor(this.draw() * 4)] : null,
        delay_p99_s: resource === "io" ? 0.004 * this.draw() : null,
        delay_max_s: resource === "io" ? 0.02 * this.draw() : null,
        owed: missed * 0.1,
      };
    });
  }

  /** @param {URLSearchParams} query */
  filtered(query) {
    const is = (/** @type {string} */ key, /** @type {any} */ value) => !query.get(key) || query.get(key) === value;
    return this.ledger.filter(
      (row) =>
        is("tenant", row.tenant) &&
        is("resource", row.resource) &&
        is("cause", row.cause) &&
        is("broken", String(row.missed > 0)) &&
        row.began_ms >= Number(query.get("from_ms") ?? 0) &&
        row.began_ms <= Number(query.get("to_ms") ?? Infinity),
    );
  }

  demo() {
    return this.stories.state();
  }

  /**
   * @param {string} method @param {string} path @param {URLSearchParams} query @param {any} body
   * @returns {{ body: any, changed?: string[] } | { csv: string } | { status: number, error: any } | undefined}
   */
  request(method, path, query, body) {
    if (path.startsWith("/api/demo")) return this.isDemo ? this.stories.request(method, path, body) : undefined;
    if (method !== "GET") return change(this, method, path, query, body);
    if (path === "/api/server") return { body: this.serverNow() };
    if (path === "/api/sizes") return { body: { rows: this.sizes } };
    if (path === "/api/runaway-rules") return { body: { rows: this.rules } };
    const offset = Number(query.get("offset") ?? 0);
    const limit = Number(query.get("limit") ?? 100);
    if (path === "/api/ledger") {
      const rows = this.filtered(query);
      return { body: { total: rows.length, rows: rows.slice(offset, offset + limit) } };
    }
    if (path === "/api/ledger.csv")
      return {
        csv: [
          "tenant,resource,missed,cause",
          ...this.filtered(query).map((row) => `${row.tenant},${row.resource},${row.missed},${row.cause ?? ""}`),
        ].join("\r\n"),
      };
    if (path === "/api/tenants") {
      const key = query.get("sort") ?? "name";
      const sign = query.get("order") === "desc" ? -1 : 1;
      const search = query.get("search") ?? "";
      const wanted = `${key} ${sign} ${search} ${this.tenants.size}`;
      // The order of a moment stands for two seconds: the browser that is measured shares the machine.
      if (this.sorted.wanted !== wanted || Date.now() - this.sorted.ms > 2000) {
        const rows = [...this.tenants.values()]
          .filter((one) => one.name.includes(search))
          .map((one) => /** @type {any} */ (this.row(one)));
        rows.sort((a, b) =>
          a[key] === b[key] ? a.id - b.id : a[key] === null ? 1 : b[key] === null ? -1 : sign * (a[key] < b[key] ? -1 : 1),
        );
        this.sorted = { wanted, ms: Date.now(), rows };
      }
      const matched = this.sorted.rows;
      return { body: { total: this.tenants.size, matched: matched.length, offset, rows: matched.slice(offset, offset + limit) } };
    }
    const [, , area, name = "", part] = path.split("/");
    const one = this.tenants.get(name);
    if (area === "reports") return { body: this.report(name, query.get("month") ?? "") };
    if (area !== "tenants" || one === undefined)
      return area === "tenants"
        ? { status: 404, error: { code: "3D000", message: `tenant "${name}" does not exist`, detail: null, hint: null } }
        : undefined;
    return this.tenantPart(one, part);
  }

  /** @param {Tenant} one @param {string | undefined} part */
  tenantPart(one, part) {
    const now = Date.now();
    if (part === undefined) {
      const step = one.memory_promised_bytes / 4;
      return {
        body: {
          ...this.row(one),
          options: options(one),
          cache_curve: Array.from({ length: 16 }, (_, i) => ({
            bytes: step * (i + 1),
            hit_ratio: 1 - 0.6 * Math.exp(-(i + 1) / 3.2),
          })),
          waits: Object.entries(this.promised(one).waits).map(([wait, seconds]) => ({
            wait,
            seconds: seconds * 4200,
            count: Math.round(seconds * 91_000),
          })),
        },
      };
    }
    if (part === "sessions")
      return {
        body: {
          rows: Array.from({ length: Math.min(7, one.sessions) }, (_, i) => ({
            pid: 4000 + i,
            user: one.name,
            application_name: i === 2 ? "pgbench" : "shop",
            client: `10.0.4.${10 + i}:5${100 + i}2`,
            state: i === 6 ? "idle in transaction" : "active",
            wait_event: ["running", "log flush", "lock", "page read"][i % 4],
            query:
              i === 6
                ? "BEGIN"
                : `SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ${i} AND o_d_id = 4 AND o_c_id = 2134 ORDER BY o_id DESC LIMIT 1`,
            query_start_ms: now - 40 * (i * i * 400 + 1),
            transaction_start_ms: now - 50_000 * (i + 1),
          })),
        },
      };
    if (part === "statements")
      return {
        body: {
          since_ms: this.started_ms,
          rows: [
            "UPDATE stock SET s_quantity = $1 WHERE s_i_id = $2 AND s_w_id = $3",
            "SELECT c_balance, c_first FROM customer WHERE c_w_id = $1 AND c_id = $2",
            "INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6)",
            "SELECT count(DISTINCT s_i_id) FROM stock, order_line WHERE …",
          ].map((text, i) => ({
            query: text,
            calls: 912_441 >> i,
            cpu_seconds: 4120 / (i + 1),
            ios: 220_112 >> (2 * i),
            rows: 812_000 >> i,
            mean_ms: 0.3 * (i + 1),
            max_ms: 92 * (i + 1),
          })),
        },
      };
    if (part === "locks")
      return {
        body: {
          rows: [
            { pid: 4000, relation: "warehouse", mode: "RowExclusiveLock", granted: true, blocked_by: [] },
            { pid: 4002, relation: "warehouse", mode: "RowExclusiveLock", granted: false, blocked_by: [4000] },
          ],
        },
      };
    if (part === "advise")
      return {
        body: {
          rows: [
            ["proposed", null, "0.44", "210", "64MiB", "0B", true, []],
            ["present", one.given.size ?? null, "0.05", "50", "64MiB", "16MiB", false, ["cpu", "iops"]],
            ["size", "small", "0.05", "50", "64MiB", "16MiB", false, ["cpu", "iops"]],
            ["size", "medium", "0.2", "200", "256MiB", "64MiB", false, ["cpu"]],
            ["proposed size", "large", "0.8", "800", "1GiB", "256MiB", true, []],
          ].map(([candidate, size, cpu, iops, memory, work_memory, enough, too_little]) => ({
            candidate,
            size,
            cpu,
            iops,
            memory,
            work_memory,
            enough,
            too_little,
            cpu_intervals: 86_400,
            cpu_broken_min: 12,
            cpu_broken_max: 40,
            cpu_missed_max: "3.120",
            note: candidate === "proposed" ? "rests on 2 days on record; memory was not promised long enough to say" : null,
          })),
        },
      };
    return undefined;
  }

  /** @param {string} name @param {string} month */
  report(name, month) {
    const from_ms = Date.parse(`${month}-01T00:00:00Z`);
    const resource = (/** @type {string} */ kind, /** @type {string | null} */ volume, /** @type {number} */ broken) => ({
      resource: kind,
      volume,
      intervals: 410_233,
      broken,
      promised: 182_004.2,
      demanded: 121_330.4,
      given: 121_010.1,
      missed: broken * 0.3,
      owed: broken * 0.03,
      causes: broken
        ? [
            { cause: "overbooked", broken: broken - 2, missed: broken * 0.25 },
            { cause: "neighbour", broken: 2, missed: broken * 0.05 },
          ]
        : [],
      worst: broken
        ? Array.from({ length: 4 }, (_, i) => ({
            began_ms: from_ms + i * 7_200_000,
            minutes: 1,
            missed: 9.2 / (i + 1),
            cause: "overbooked",
          }))
        : [],
    });
    return {
      tenant: name,
      month,
      from_ms,
      to_ms: from_ms + 30 * 86_400_000,
      recorded_from_ms: from_ms + 3 * 86_400_000,
      resources: [
        resource("cpu", null, 211),
        resource("io", "default", 0),
        resource("memory", null, 12),
        resource("work_memory", null, 0),
      ],
      owed: 6.33 + 0.36,
    };
  }
}
