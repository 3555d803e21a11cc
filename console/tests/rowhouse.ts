/** A real server as a child process, with its data in a folder that goes with it, and loads of `rowhouse bench` against it. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
export const PASSWORD = "secret";
const START_WAIT_MS = 180_000;

interface Begun {
  url: string;
  address: string;
  password: string;
}

/** A process that says where it is within its first lines. */
async function begun(
  binary: string,
  args: readonly string[],
  read: (text: string) => Begun | null,
): Promise<{ child: ChildProcess; found: Begun; said: () => string }> {
  const child = spawn(binary, args, {
    env: { ...process.env, ROWHOUSE_ADMIN_PASSWORD: PASSWORD },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  child.stdout?.on("data", (chunk: Buffer) => (said += chunk.toString()));
  child.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const until = Date.now() + START_WAIT_MS;
  for (;;) {
    const found = read(said);
    if (found !== null) return { child, found, said: () => said };
    if (child.exitCode !== null || Date.now() > until) {
      child.kill("SIGKILL");
      throw new Error(`the server did not start:\n${said}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export class Rowhouse {
  private constructor(
    readonly binary: string,
    private readonly folder: string | null,
    private readonly process: ChildProcess,
    /** Of the page. */
    readonly url: string,
    /** Of PostgreSQL's protocol. */
    readonly address: string,
    /** The administrator's. */
    readonly password: string,
    readonly said: () => string,
  ) {}
  readonly #loads: ChildProcess[] = [];

  /** Starts a server with further options of `rowhouse serve`, and waits until it listens. */
  static async start(binary: string, options: readonly string[] = []): Promise<Rowhouse> {
    const folder = await mkdtemp(join(tmpdir(), "rowhouse-console-"));
    const args = [
      "serve",
      "--listen",
      "127.0.0.1:0",
      "--admin-listen",
      "127.0.0.1:0",
      "--data",
      join(folder, "data"),
      ...options,
    ];
    const { child, found, said } = await begun(binary, args, (text) => {
      const line = text.split("\n").find((one) => one.includes(" serves ") && one.includes("postgres://"));
      const address = line?.match(/postgres:\/\/([^, ]+)/)?.[1];
      const url = line?.match(/(https?:\/\/[^/ ]+)\/?/)?.[1];
      return address && url ? { address, url, password: PASSWORD } : null;
    });
    return new Rowhouse(binary, folder, child, found.url, found.address, found.password, said);
  }
  /** Starts `rowhouse demo`, whose data is in a folder of its own. */
  static async demo(binary: string, options: readonly string[] = []): Promise<Rowhouse> {
    const { child, found, said } = await begun(binary, ["demo", ...options], (text) => {
      const console = text.match(/the console: (http:\/\/[^/]+)\/ \(user admin, password (.+)\)/);
      const address = text.match(/clients: postgres:\/\/admin:[^@]+@([^/ ]+)/)?.[1];
      return console?.[1] && console[2] && address ? { url: console[1], password: console[2], address } : null;
    });
    return new Rowhouse(binary, null, child, found.url, found.address, found.password, said);
  }

  database(name: string): string {
    return `postgres://admin:${this.password}@${this.address}/${name}`;
  }
  /** Runs a script as the administrator; what it prints, without heads. */
  sql(script: string, database = "rowhouse"): Promise<string> {
    return this.#psql(this.database(database), script);
  }
  /** Runs a script as a tenant's owner, whose password is `pw`. */
  sqlOfOwner(script: string, tenant: string): Promise<string> {
    return this.#psql(`postgres://${tenant}:pw@${this.address}/${tenant}`, script);
  }
  async #psql(database: string, script: string): Promise<string> {
    const { stdout } = await run("psql", ["-XAtq", "-v", "ON_ERROR_STOP=1", database, "-c", script]);
    return stdout.trim();
  }
  /** A session that runs `script` and is left alone. */
  session(script: string, database: string): ChildProcess {
    const child = spawn("psql", ["-XAtq", this.database(database)], { stdio: ["pipe", "ignore", "ignore"] });
    child.stdin?.write(`${script}\n`);
    this.#loads.push(child);
    return child;
  }
  /** Loads, without an end in sight: `bench` with these arguments. Resolves once its tables are loaded. */
  async load(
    workload: string,
    prefix: string,
    tenants: number,
    args: readonly string[],
    loadArgs: readonly string[] = [],
  ): Promise<void> {
    const common = [workload, "--url", this.database("rowhouse"), "--prefix", prefix, "--tenants", String(tenants), ...loadArgs];
    await run(this.binary, ["bench", ...common, "--load-only"], { timeout: 600_000 });
    this.#loads.push(
      spawn(this.binary, ["bench", ...common, "--no-load", "--seconds", "100000", "--no-check", ...args], { stdio: "ignore" }),
    );
  }

  async stop(): Promise<void> {
    for (const load of this.#loads) load.kill("SIGKILL");
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    // As Ctrl-C does, which both of them end by.
    this.process.kill("SIGINT");
    const late = setTimeout(() => this.process.kill("SIGKILL"), 30_000);
    await ended;
    clearTimeout(late);
    if (this.folder !== null) await rm(this.folder, { recursive: true, force: true });
  }
}
