// What the development server makes of a change: the text of a statement like the real one's, and the effect on the invented tenants.

const OPTIONS = [
  "cpu",
  "cpu_max",
  "cpu_weight",
  "cpu_burst",
  "iops",
  "iops_max",
  "io_weight",
  "io_bandwidth",
  "io_bandwidth_max",
  "io_promise",
  "memory",
  "memory_max",
  "work_memory",
  "work_memory_max",
  "connections_max",
  "storage_max",
  "temp_max",
  "statement_timeout",
  "penalty",
];

/** @param {any} tenant */
export function options(tenant) {
  return Object.fromEntries([
    ["size", tenant.given.size ?? null],
    ...OPTIONS.map((key) => [
      key,
      tenant.given[key] ??
        (key === "cpu"
          ? tenant.cpu_promised
          : key === "iops"
            ? tenant.iops_promised
            : key === "memory"
              ? tenant.memory_promised_bytes
              : null),
    ]),
  ]);
}

const literal = (/** @type {any} */ value) =>
  typeof value === "number" ? String(value) : `'${String(value).replaceAll("'", "''")}'`;
const list = (/** @type {Record<string, any>} */ given) =>
  Object.entries(given)
    .map(([key, value]) => `${key} = ${literal(value)}`)
    .join(", ");

/** @param {string} what @param {Record<string, any>} given */
function alter(what, given) {
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
  const reset = Object.keys(given).filter((key) => given[key] === null);
  return [
    Object.keys(set).length ? `ALTER ${what} SET (${list(set)})` : "",
    reset.length ? `ALTER ${what} RESET (${reset.join(", ")})` : "",
  ]
    .filter(Boolean)
    .join("; ");
}

/**
 * @param {any} world @param {string} method @param {string} path @param {URLSearchParams} query @param {any} body
 * @returns {{ body: any, changed?: string[] } | { status: number, error: any } | undefined}
 */
export function change(world, method, path, query, body) {
  const dry = query.get("dry_run") === "true";
  const [, , area, name = "", part, pid, how] = path.split("/");
  const done = (
    /** @type {string} */ sql,
    /** @type {string} */ what,
    /** @type {() => void} */ act,
    /** @type {any[]} */ notices = [],
  ) => {
    if (dry) return { body: { sql } };
    act();
    return { body: { sql, notices }, changed: [what] };
  };
  const refuse = (/** @type {string} */ code, /** @type {string} */ message, status = 400) => ({
    status,
    error: { code, message, detail: null, hint: null },
  });
  const values = Object.values(body.options ?? {});
  if (method === "PATCH" && values.includes(null) && values.some((value) => value !== null))
    return refuse("22023", "the request sets options and resets others, which takes two statements");
  if (area === "tenants" && part === "sessions")
    return { body: { sql: `SELECT pg_${how === "cancel" ? "cancel_backend" : "terminate_backend"}(${pid})`, done: true } };
  if (area === "tenants" && method === "POST") {
    const { name: made, options: given = {}, template, password } = body;
    const sql = `CREATE TENANT ${made}${template ? ` FROM TEMPLATE ${template}` : ""}${Object.keys(given).length ? ` WITH (${list(given)})` : ""}${password ? ` OWNER ${made} PASSWORD '…'` : ""}`;
    if (!dry && world.tenants.has(made)) return refuse("42P04", `tenant "${made}" already exists`, 409);
    const notices =
      Number(given.cpu) > 4
        ? [
            {
              severity: "WARNING",
              message: "more processor time is promised than there is",
              detail: "9.2 cores are reserved of 8.",
            },
          ]
        : [];
    return done(sql, "tenants", () => world.add(made, given, undefined, 0), notices);
  }
  if (area === "tenants" && method === "PATCH") {
    const tenant = world.tenants.get(name);
    if (!tenant) return refuse("3D000", `tenant "${name}" does not exist`, 404);
    if (body.worker !== undefined)
      return done(
        `ALTER TENANT ${name} SET WORKER ${body.worker === "default" ? "DEFAULT" : body.worker}`,
        "tenants",
        () => void (tenant.worker = Number(body.worker) || 0),
      );
    if (!dry && body.options.cpu === "half") return refuse("22023", 'value "half" of option "cpu" is not a number of cores');
    return done(alter(`TENANT ${name}`, body.options), "tenants", () => {
      Object.assign(tenant.given, body.options);
      if (body.options.cpu) tenant.cpu_promised = Number(body.options.cpu);
    });
  }
  if (area === "tenants" && method === "DELETE") return done(`DROP TENANT ${name}`, "tenants", () => world.tenants.delete(name));
  if (area === "server") return done(alter("SERVER", body.options), "server", () => Object.assign(world.server, body.options));
  if (area === "volumes")
    return done(alter(`VOLUME ${name}`, body.options), "volumes", () =>
      Object.assign(world.volumes[name], {
        iops_limit: body.options.iops_limit === null ? null : Number(body.options.iops_limit),
      }),
    );
  const rows = area === "sizes" ? world.sizes : world.rules;
  const noun = area === "sizes" ? "SIZE" : "RUNAWAY RULE";
  const what = area === "sizes" ? "sizes" : "rules";
  if (area !== "sizes" && area !== "runaway-rules") return undefined;
  const at = rows.findIndex((/** @type {any} */ row) => row.name === name);
  if (method === "POST")
    return done(
      `CREATE ${noun} ${body.name}${body.tenant ? ` FOR TENANT ${body.tenant}` : ""} AS (${list(body.options)})`,
      what,
      () => rows.push({ name: body.name, tenant: body.tenant ?? null, ...body.options, acted: 0 }),
    );
  if (at < 0) return refuse("42704", `${noun.toLowerCase()} "${name}" does not exist`, 404);
  if (method === "PATCH") return done(alter(`${noun} ${name}`, body.options), what, () => Object.assign(rows[at], body.options));
  return done(`DROP ${noun} ${name}`, what, () => rows.splice(at, 1));
}
