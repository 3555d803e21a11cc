// A server to develop the page against: the console's HTTP interface over invented tenants. It knows no SQL and keeps no promise; what counts is tested against the real one.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { World } from "./world.mjs";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".json": "application/json",
  ".woff2": "font/woff2",
};
const CSP = "default-src 'self'";
const SESSION = "rowhouse_session=mock";

/**
 * Serves until `close` is called.
 * @param {{ tenants?: number, demo?: boolean, port?: number, dist?: string }} how
 */
export async function serve({
  tenants = 10_000,
  demo = true,
  port = 0,
  dist = fileURLToPath(new URL("../dist/", import.meta.url)),
} = {}) {
  const world = new World(tenants, demo);
  let role = "administrator";
  let failures = { left: 0, path: "" };
  let down = false;
  let expired = false;
  let refusedLogin = 0;
  /** @type {Set<{ answer: import("node:http").ServerResponse, query: URLSearchParams }>} */
  const streams = new Set();
  const clock = setInterval(() => {
    const frame = world.tick();
    for (const { answer, query } of streams) {
      send(answer, "frame", world.framed(frame, query));
      if (demo) send(answer, "demo", world.demo());
    }
  }, 1000);

  const server = createServer(async (request, answer) => {
    const url = new URL(request.url ?? "/", "http://mock");
    const cookie = request.headers.cookie ?? "";
    const body = await text(request);
    const json = (/** @type {number} */ status, /** @type {unknown} */ value, headers = {}) => {
      answer.writeHead(status, { "content-type": "application/json", ...headers });
      answer.end(value === undefined ? "" : JSON.stringify(value));
    };
    const refuse = (
      /** @type {number} */ status,
      /** @type {string} */ code,
      /** @type {string} */ message,
      detail = null,
      hint = null,
    ) => json(status, { error: { code, message, detail, hint } });
    if (!url.pathname.startsWith("/api")) return page(url.pathname, answer);
    if (down) return void request.socket.destroy();
    if (failures.left > 0 && url.pathname === failures.path) {
      failures.left -= 1;
      return refuse(503, "57P03", "the server is stopping");
    }
    if (url.pathname === "/api/login") {
      const { user, password } = JSON.parse(body);
      if (refusedLogin > 0) return refuse(refusedLogin, "28P01", "refused");
      expired = false;
      if (password !== "secret") return refuse(401, "28P01", "password authentication failed");
      role = user === "viewer" ? "viewer" : "administrator";
      return json(200, world.session(user, role), { "set-cookie": `${SESSION}; HttpOnly; SameSite=Strict; Path=/` });
    }
    if (expired || !cookie.includes(SESSION)) return refuse(401, "28000", "no session");
    if (url.pathname === "/api/session") return json(200, world.session(role === "viewer" ? "viewer" : "admin", role));
    if (url.pathname === "/api/logout") return json(204, undefined, { "set-cookie": "rowhouse_session=; Max-Age=0; Path=/" });
    if (url.pathname === "/api/live") {
      answer.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
      const stream = { answer, query: url.searchParams };
      const named = [...world.tenants.values()].filter((one) => one.busy > 0).map((one) => [one.id, one.name]);
      send(answer, "names", { tenants: named });
      send(answer, "history", { frames: world.history.map((frame) => world.framed(frame, url.searchParams)) });
      if (demo) send(answer, "demo", world.demo());
      streams.add(stream);
      answer.on("close", () => streams.delete(stream));
      return;
    }
    if (request.method !== "GET") {
      if (role === "viewer") return refuse(403, "42501", "a viewer changes nothing");
      if (request.headers["x-csrf-token"] !== "csrf") return refuse(403, "28000", "the request lacks its token");
    }
    const outcome = world.request(
      request.method ?? "GET",
      decodeURIComponent(url.pathname),
      url.searchParams,
      body === "" ? {} : JSON.parse(body),
    );
    if (outcome === undefined) return refuse(404, "42704", `nothing is at ${url.pathname}`);
    if ("error" in outcome)
      return refuse(outcome.status, outcome.error.code, outcome.error.message, outcome.error.detail, outcome.error.hint);
    if ("csv" in outcome) {
      answer.writeHead(200, { "content-type": "text/csv", "content-disposition": "attachment; filename=ledger.csv" });
      return answer.end(outcome.csv);
    }
    for (const what of outcome.changed ?? []) for (const stream of streams) send(stream.answer, "changed", { what });
    return json(200, outcome.body);
  });

  async function page(/** @type {string} */ path, /** @type {import("node:http").ServerResponse} */ answer) {
    const file = join(dist, normalize(path === "/" ? "/index.html" : path));
    try {
      const bytes = await readFile(file);
      answer.writeHead(200, {
        "content-type": TYPES[/** @type {keyof typeof TYPES} */ (extname(file))] ?? "application/octet-stream",
        "content-security-policy": CSP,
      });
      answer.end(bytes);
    } catch {
      answer.writeHead(404).end();
    }
  }

  await new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve(undefined)));
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${address.port}`,
    world,
    /** The next `n` requests for this path fail. */
    fail: (/** @type {number} */ n, /** @type {string} */ path) => void (failures = { left: n, path }),
    /** Cuts every stream, and answers nothing until called with false. */
    cut: (/** @type {boolean} */ off) => {
      down = off;
      if (off) for (const { answer } of streams) answer.destroy();
    },
    /** Ends all sessions. */
    expire: () => {
      expired = true;
      for (const { answer } of streams) {
        send(answer, "expired", {});
        answer.end();
      }
    },
    /** Answers logins with this status; 0 lets them in again. */
    refuseLogin: (/** @type {number} */ status) => void (refusedLogin = status),
    close: async () => {
      clearInterval(clock);
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** @param {import("node:http").ServerResponse} answer @param {string} event @param {unknown} body */
function send(answer, event, body) {
  answer.write(`event: ${event}\ndata: ${JSON.stringify(body)}\n\n`);
}

/** @param {import("node:http").IncomingMessage} request */
async function text(request) {
  let all = "";
  for await (const chunk of request) all += chunk;
  return all;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await serve({ port: 8099 });
  console.log(`${url}: user admin or viewer, password secret`);
}
