// The scenarios of the development server: they tell a story and load nothing.

const STORIES = [
  [
    "growing",
    "One grows, fifty do not notice",
    "A tenant's clients are multiplied every minute. The others' throughput and latency stay where they were.",
  ],
  [
    "noisy",
    "A noisy neighbour under three policies",
    "One tenant takes all it can get. The policy is switched from reservations to limits to best effort and back.",
  ],
  [
    "overbooking",
    "Overbooking, and who pays",
    "More is promised than there is, and all want it at once: in proportion first, then by penalty.",
  ],
  ["analytics", "An analytical query beside TPC-C", "A TPC-H stream begins beside order entry."],
  ["many", "Hundreds of small tenants", "400 tenants with a client each."],
];

const LENGTH_S = 120;
const WORKLOADS = [
  {
    name: "tpcc",
    options: [
      { name: "warehouses", default: 1 },
      { name: "scale", default: 0.02 },
    ],
  },
  {
    name: "cpuio",
    options: [
      { name: "cpu", default: 1 },
      { name: "scan", default: 1 },
      { name: "rows", default: 5000 },
    ],
  },
  {
    name: "tpch",
    options: [
      { name: "scale", default: 0.01 },
      { name: "queries", default: "1-19,21-22" },
    ],
  },
  {
    name: "pgbench",
    options: [
      { name: "scale", default: 1 },
      { name: "script", default: "tpcb-like", choices: ["tpcb-like", "select-only"] },
    ],
  },
];

/** @param {number} now */
export function stories(now) {
  /** @type {any} */
  let running = null;
  let next = 3;
  const group = (/** @type {any} */ given, /** @type {number} */ id) => ({
    name: "group",
    tenant_prefix: "t",
    tenants: 1,
    clients: 1,
    workload: "tpcc",
    options: {},
    rate: null,
    promises: {},
    shape: { kind: "steady", period_s: 60, low: 0, high: 1 },
    ...given,
    id: String(id),
    state: "running",
    error: null,
    throughput: 640,
    p99_ms: 12.4,
  });
  const bare = (/** @type {any} */ { id, state, error, throughput, p99_ms, ...spec }) => spec;
  /** @type {any[]} */
  let groups = [
    group(
      { name: "order entry", tenant_prefix: "shop", tenants: 50, clients: 2, rate: 40, promises: { cpu: 0.05, memory: "8MB" } },
      1,
    ),
    group(
      { name: "reports", tenant_prefix: "report", workload: "tpch", shape: { kind: "burst", period_s: 90, low: 0, high: 4 } },
      2,
    ),
  ];
  const state = () => {
    if (running && !running.paused) {
      const passed_s = ((Date.now() - running.seen_ms) / 1000) * running.speed;
      running.at_s += passed_s;
    }
    if (running) running.seen_ms = Date.now();
    const step = running ? running.steps.filter((/** @type {any} */ one) => one.at_s <= running.at_s).length - 1 : 0;
    return {
      stories: STORIES.map(([id, title, text], i) => ({ id, title, text, minutes: 4 + i })),
      running: running && { ...running, step },
      groups,
      workloads: WORKLOADS,
    };
  };
  const refused = (/** @type {string} */ message) => ({
    status: 400,
    error: { code: "22023", message, detail: null, hint: null },
  });
  return {
    state,
    /** Lets so many seconds of the story pass. @param {number} seconds */
    skip(seconds) {
      running.at_s += seconds;
    },
    /** @param {string} method @param {string} path @param {any} body */
    request(method, path, body) {
      const id = path.split("/")[4];
      if (path === "/api/demo/start") {
        const steps = [
          { at_s: 0, text: "Fifty tenants at their usual rate" },
          { at_s: 40, text: "One of them doubles its clients" },
          { at_s: 80, text: "And again" },
        ];
        running = {
          story: body.story,
          began_ms: Date.now(),
          seen_ms: Date.now(),
          at_s: 0,
          length_s: LENGTH_S,
          is_loading: false,
          steps,
          speed: 1,
          paused: false,
        };
      } else if (path === "/api/demo/stop") running = null;
      else if (path === "/api/demo/file" && method === "PUT") {
        const wrong = body.groups.find((/** @type {any} */ one) => one.tenants < 1);
        if (wrong) return refused(`the group "${wrong.name}": a group has 1 to 1000 tenants, not ${wrong.tenants}`);
        groups = body.groups.map((/** @type {any} */ one) => group(one, next++));
      } else if (path === "/api/demo/file") return { body: { rowhouse_scenario: 1, groups: groups.map(bare) } };
      else if (path === "/api/demo" && method === "PATCH" && running) running = { ...running, ...body };
      else if (method === "POST") groups.push(group(body, next++));
      else if (method === "PATCH") groups = groups.map((one) => (one.id === id ? { ...one, ...body } : one));
      else if (method === "DELETE") groups = groups.filter((one) => one.id !== id);
      return { body: state() };
    },
    now,
  };
}
