// The scenarios of the development server: they tell a story and load nothing.

const STORIES = [
  ["growing", "One grows, fifty do not notice", "A tenant's clients are multiplied every minute. The others' throughput and latency stay where they were."],
  ["noisy", "A noisy neighbour under three policies", "One tenant takes all it can get. The policy is switched from reservations to limits to best effort and back."],
  ["overbooking", "Overbooking, and who pays", "More is promised than there is, and all want it at once: in proportion first, then by penalty."],
  ["analytics", "An analytical query beside TPC-C", "A TPC-H stream begins beside order entry."],
  ["many", "Hundreds of small tenants", "400 tenants with a client each."],
];

/** @param {number} now */
export function stories(now) {
  /** @type {any} */
  let running = null;
  let next = 3;
  const group = (/** @type {any} */ given, /** @type {number} */ id) => ({ id: String(id), name: "group", tenant_prefix: "t", tenants: 1, clients: 1, workload: "tpcc", options: {}, rate: null, shape: { kind: "steady", period_s: 60, low: 0, high: 1 }, state: "running", error: null, throughput: 640, p99_ms: 12.4, ...given });
  /** @type {any[]} */
  let groups = [group({ name: "order entry", tenant_prefix: "shop", tenants: 50, clients: 2, rate: 40 }, 1), group({ name: "reports", tenant_prefix: "report", workload: "tpch", throughput: 0.8, p99_ms: 4200, shape: { kind: "burst", period_s: 90, low: 0, high: 4 } }, 2)];
  const state = () => ({ stories: STORIES.map(([id, title, text], i) => ({ id, title, text, minutes: 4 + i })), running, groups });
  return {
    state,
    /** @param {string} method @param {string} path @param {any} body */
    request(method, path, body) {
      const id = path.split("/")[4];
      if (path === "/api/demo/start") running = { story: body.story, began_ms: Date.now(), step: 1, steps: [{ at_s: 0, text: "Fifty tenants at their usual rate" }, { at_s: 40, text: "One of them doubles its clients" }, { at_s: 80, text: "And again" }], speed: 1, paused: false };
      else if (path === "/api/demo/stop") running = null;
      else if (path === "/api/demo/file" && method === "PUT") groups = body.groups;
      else if (path === "/api/demo/file") return { body: { groups } };
      else if (path === "/api/demo" && method === "PATCH" && running) running = { ...running, speed: body.speed };
      else if (method === "POST") groups.push(group(body, next++));
      else if (method === "PATCH") groups = groups.map((one) => (one.id === id ? { ...one, ...body } : one));
      else if (method === "DELETE") groups = groups.filter((one) => one.id !== id);
      return { body: method === "GET" ? state() : {} };
    },
    now,
  };
}
