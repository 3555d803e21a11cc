/** A real server as a child process, with its data in a folder that goes with it, and loads of `rowhouse bench` against it. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
export const PASSWORD = "secret";
const START_WAIT_MS = 180_000;

export class Rowhouse {
  private constructor(
    readonly binary: string,
    readonly folder: string,
    private readonly process: ChildProcess,
    /** Of the page. */
    readonly url: string,
    /** Of PostgreSQL's protocol. */
    readonly address: string,
    readonly said: () => string,
  ) {}
  readonly #loads: ChildProcess[] = [];

  /** Starts a server with further options of `rowhouse serve`, and waits until it listens. */
  static async start(binary: string, options: readonly string[] = []): Promise<Rowhouse> {
    const folder = await mkdtemp(join(tmpdir(), "rowhouse-console-"));
    const child = spawn(binary, ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data", join(folder, "data"), ...options], { env: { ...process.env, ROWHOUSE_ADMIN_PASSWORD: PASSWORD }, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    child.stdout?.on("data", (chunk: Buffer) => (said += chunk.toString()));
    child.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
    const until = Date.now() + START_WAIT_MS;
    for (;;) {
      const line = said.split("\n").find((one) => one.includes(" serves ") && one.includes("postgres://"));
      const address = line?.match(/postgres:\/\/([^, ]+)/)?.[1];
      const url = line?.match(/(https?:\/\/[^/ ]+)\/?/)?.[1];
      if (address && url) return new Rowhouse(binary, folder, child, url, address, () => said);
      if (child.exitCode !== null || Date.now() > until) {
        child.kill("SIGKILL");
        throw new Error(`the server did not start:\n${said}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  database(name: string): string {
    return `postgres://admin:${PASSWORD}@${this.address}/${name}`;
  }
  /** Runs a script as the administrator; what it prints, without heads. */
  async sql(script: string, database = "rowhouse"): Promise<string> {
    const { stdout } = await run("psql", ["-XAtq", "-v", "ON_ERROR_STOP=1", this.database(database), "-c", script]);
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
  async load(workload: string, prefix: string, tenants: number, args: readonly string[], loadArgs: readonly string[] = []): Promise<void> {
    const common = [workload, "--url", this.database("rowhouse"), "--prefix", prefix, "--tenants", String(tenants), ...loadArgs];
    await run(this.binary, ["bench", ...common, "--load-only"], { timeout: 600_000 });
    this.#loads.push(spawn(this.binary, ["bench", ...common, "--no-load", "--seconds", "100000", "--no-check", ...args], { stdio: "ignore" }));
  }

  /** Processor time of the server so far, in seconds. */
  async cpuSeconds(): Promise<number> {
    const { readFile } = await import("node:fs/promises");
    const stat = await readFile(`/proc/${this.process.pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / 100;
  }

  async stop(): Promise<void> {
    for (const load of this.#loads) load.kill("SIGKILL");
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGTERM");
    const late = setTimeout(() => this.process.kill("SIGKILL"), 30_000);
    await ended;
    clearTimeout(late);
    await rm(this.folder, { recursive: true, force: true });
  }
}
