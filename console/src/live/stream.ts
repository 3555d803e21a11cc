/**
 * The live stream. One connection at a time; what a page wants of it (`want`) makes it begin anew, with history, so that nothing is missing. A lost connection is
 * tried again with `backoff_ms`; meanwhile the frames so far stay.
 */
import type { ChangedWhat, Demo, Frame } from "../api/types";
import { queryText } from "../api/client";
import { Signal } from "../signal";
import { backoff_ms } from "./backoff";
import { appendFrame } from "./frames";

export type Connection =
  | { state: "off" }
  | { state: "connecting" }
  | { state: "live" }
  /** No frame for some seconds though the connection stands. */
  | { state: "silent"; since_ms: number }
  | { state: "lost"; since_ms: number; retry_ms: number };

export interface Wanted {
  watch: readonly string[];
  tenant: string | null;
}

const SILENT_AFTER_MS = 4000;
const TOP = 9;
/** Tenants whose throughput is drawn: as many as the server tells. */
const LINES = 256;

export class Stream {
  readonly connection = new Signal<Connection>({ state: "off" });
  readonly frames = new Signal<Frame[]>([]);
  readonly changed = new Signal<{ what: ChangedWhat } | null>(null);
  /** Of the tenants in the frames' lines. */
  readonly names = new Map<number, string>();
  readonly demo = new Signal<Demo | null>(null);
  /** Asked when a connection ends; false: the session is over, and there is no use in trying again. */
  stillSignedIn: () => Promise<boolean> = () => Promise.resolve(true);
  onExpired: () => void = () => {};

  #source: EventSource | null = null;
  #wanted: Wanted = { watch: [], tenant: null };
  #attempt = 0;
  #lost_ms = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #watchdog: ReturnType<typeof setInterval> | undefined;
  #last_ms = 0;

  start(): void {
    if (this.#source !== null) return;
    this.#attempt = 0;
    this.#watchdog ??= setInterval(() => this.#lookForSilence(), 1000);
    this.#connect();
  }

  stop(): void {
    clearTimeout(this.#retry);
    clearInterval(this.#watchdog);
    this.#watchdog = undefined;
    this.#close();
    this.frames.set([]);
    this.names.clear();
    this.demo.set(null);
    this.connection.set({ state: "off" });
  }

  /** What the page looks at. */
  want(wanted: Wanted): void {
    if (JSON.stringify(wanted) === JSON.stringify(this.#wanted)) return;
    this.#wanted = wanted;
    if (this.connection.value.state === "off") return;
    clearTimeout(this.#retry);
    this.#connect();
  }

  #close(): void {
    this.#source?.close();
    this.#source = null;
  }

  #connect(): void {
    this.#close();
    if (this.connection.value.state !== "live" && this.connection.value.state !== "lost")
      this.connection.set({ state: "connecting" });
    const query = { top: TOP, lines: LINES, watch: this.#wanted.watch, tenant: this.#wanted.tenant, history: 600 };
    const source = new EventSource(`/api/live${queryText(query)}`);
    this.#source = source;
    const on = <T>(event: string, run: (body: T) => void): void => {
      source.addEventListener(event, (message) => {
        if (this.#source === source) run(JSON.parse((message as MessageEvent<string>).data) as T);
      });
    };
    let past: Frame[] = [];
    on<{ frames: Frame[]; more?: boolean }>("history", ({ frames, more }) => {
      this.#arrived();
      past = past.concat(frames);
      if (more !== true) this.frames.set(past);
    });
    on<{ tenants: [id: number, name: string][] }>("names", ({ tenants }) => {
      for (const [id, name] of tenants) this.names.set(id, name);
    });
    on<Frame>("frame", (frame) => {
      this.#arrived();
      appendFrame(this.frames.value, frame);
      this.frames.tell();
    });
    on<{ what: ChangedWhat }>("changed", (body) => this.changed.set(body));
    on<Demo>("demo", (body) => this.demo.set(body));
    on<unknown>("expired", () => {
      this.stop();
      this.onExpired();
    });
    source.onerror = () => {
      if (this.#source === source) void this.#lost();
    };
  }

  #arrived(): void {
    this.#last_ms = Date.now();
    this.#attempt = 0;
    this.#lost_ms = 0;
    if (this.connection.value.state !== "live") this.connection.set({ state: "live" });
  }

  async #lost(): Promise<void> {
    this.#close();
    this.#lost_ms ||= Date.now();
    const wait_ms = backoff_ms(this.#attempt, Math.random());
    this.#attempt += 1;
    this.connection.set({ state: "lost", since_ms: this.#lost_ms, retry_ms: Date.now() + wait_ms });
    if (!(await this.stillSignedIn())) return;
    if (this.connection.value.state !== "lost") return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#connect(), wait_ms);
  }

  #lookForSilence(): void {
    const state = this.connection.value.state;
    if (state === "live" && Date.now() - this.#last_ms > SILENT_AFTER_MS)
      this.connection.set({ state: "silent", since_ms: this.#last_ms });
  }
}
