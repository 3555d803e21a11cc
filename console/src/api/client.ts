/** Requests to the server. Every failure is an `ApiError`; one of status 401 also tells `onSignedOut`, whoever asked. */
import type {
  ChangeResult,
  Demo,
  ClientGroup,
  ErrorBody,
  LedgerFilter,
  LedgerRow,
  Lock,
  Options,
  Order,
  Report,
  Row,
  Server,
  Session,
  StatementOrder,
  Tenant,
  TenantColumn,
  TenantDetail,
  TenantPage,
  TenantSession,
  TopStatement,
} from "./types";

export class ApiError extends Error {
  constructor(
    /** 0 where the server was not reached. */
    readonly status: number,
    readonly body: ErrorBody,
  ) {
    super(body.message);
  }
}

type Value = string | number | boolean;
type Query = Record<string, Value | readonly string[] | undefined | null>;

/** Of a list the commas between its entries are the only ones that stand for themselves. */
function valueText(value: Value | readonly string[]): string {
  return typeof value === "object" ? value.map(encodeURIComponent).join(",") : encodeURIComponent(String(value));
}

export function queryText(query: Query): string {
  const pairs = Object.entries(query).flatMap(([key, value]) => {
    const text = value === undefined || value === null ? "" : valueText(value);
    return text === "" ? [] : [`${key}=${text}`];
  });
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

/** A name in a path. Names of dots alone would mean another path to the browser: the server takes two dots off. */
export function segment(name: string): string {
  return encodeURIComponent(/^\.+$/.test(name) ? `${name}..` : name);
}

const unreachable: ErrorBody = {
  code: "08001",
  message: "The server does not answer.",
  detail: null,
  hint: "The page tries again by itself once the connection is back.",
};

export class Client {
  #csrf = "";
  onSignedOut: () => void = () => {};
  /** Whether somebody is at the page: what it asks for by itself does not keep the session open. */
  isAttended: () => boolean = () => true;

  async #request<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    const headers: Record<string, string> = { accept: "application/json" };
    if (method !== "GET") headers["x-csrf-token"] = this.#csrf;
    if (!this.isAttended()) headers["x-unattended"] = "1";
    if (body !== undefined) headers["content-type"] = "application/json";
    let answer: Response;
    try {
      answer = await fetch(path, {
        method,
        headers,
        credentials: "same-origin",
        cache: "no-store",
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new ApiError(0, unreachable);
    }
    if (answer.ok) return (answer.status === 204 ? undefined : await answer.json()) as T;
    const parsed = (await answer.json().catch(() => null)) as { error?: ErrorBody } | null;
    const error = new ApiError(
      answer.status,
      parsed?.error ?? { ...unreachable, message: `${answer.status} ${answer.statusText}`, hint: null },
    );
    if (answer.status === 401 && path !== "/api/login" && path !== "/api/session") this.onSignedOut();
    throw error;
  }

  #get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    return this.#request("GET", path + queryText(query), undefined, signal);
  }

  #change(method: string, path: string, body: unknown, dry: boolean): Promise<ChangeResult> {
    return this.#request(method, path + queryText({ dry_run: dry ? true : undefined }), body);
  }

  async login(user: string, password: string): Promise<Session> {
    const session = await this.#request<Session>("POST", "/api/login", { user, password });
    this.#csrf = session.csrf;
    return session;
  }
  async session(): Promise<Session> {
    const session = await this.#get<Session>("/api/session");
    this.#csrf = session.csrf;
    return session;
  }
  logout(): Promise<void> {
    return this.#request("POST", "/api/logout");
  }

  server(): Promise<Server> {
    return this.#get("/api/server");
  }
  tenants(
    query: { search?: string; sort: TenantColumn; order: Order; offset: number; limit: number },
    signal?: AbortSignal,
  ): Promise<TenantPage> {
    return this.#get("/api/tenants", query, signal);
  }
  tenant(name: string): Promise<TenantDetail> {
    return this.#get(tenantPath(name));
  }
  sessions(name: string): Promise<{ rows: TenantSession[] }> {
    return this.#get(`${tenantPath(name)}/sessions`);
  }
  endSession(name: string, pid: number, how: "cancel" | "terminate"): Promise<ChangeResult> {
    return this.#request("POST", `${tenantPath(name)}/sessions/${pid}/${how}`);
  }
  statements(name: string, by: StatementOrder): Promise<{ rows: TopStatement[]; since_ms: number }> {
    return this.#get(`${tenantPath(name)}/statements`, { by, limit: 20 });
  }
  locks(name: string): Promise<{ rows: Lock[] }> {
    return this.#get(`${tenantPath(name)}/locks`);
  }
  advise(name: string, p99_ms: number | null): Promise<{ rows: Row[] }> {
    return this.#get(`${tenantPath(name)}/advise`, { p99_ms });
  }
  sizes(): Promise<{ rows: Row[] }> {
    return this.#get("/api/sizes");
  }
  rules(): Promise<{ rows: Row[] }> {
    return this.#get("/api/runaway-rules");
  }
  ledger(
    filter: LedgerFilter & { offset: number; limit: number },
    signal?: AbortSignal,
  ): Promise<{ total: number; rows: LedgerRow[] }> {
    return this.#get("/api/ledger", { ...filter }, signal);
  }
  ledgerCsv(filter: LedgerFilter): string {
    return `/api/ledger.csv${queryText({ ...filter })}`;
  }
  report(name: string, month: string): Promise<Report> {
    return this.#get(`/api/reports/${segment(name)}`, { month });
  }

  createTenant(
    body: { name: string; password?: string; template?: string; options: Options },
    dry: boolean,
  ): Promise<ChangeResult> {
    return this.#change("POST", "/api/tenants", body, dry);
  }
  alterTenant(name: string, body: { options?: Options; worker?: number | "default" }, dry: boolean): Promise<ChangeResult> {
    return this.#change("PATCH", tenantPath(name), body, dry);
  }
  dropTenant(name: string, dry: boolean): Promise<ChangeResult> {
    return this.#change("DELETE", tenantPath(name), undefined, dry);
  }
  createSize(body: { name: string; options: Options }, dry: boolean): Promise<ChangeResult> {
    return this.#change("POST", "/api/sizes", body, dry);
  }
  alterSize(name: string, options: Options, dry: boolean): Promise<ChangeResult> {
    return this.#change("PATCH", `/api/sizes/${segment(name)}`, { options }, dry);
  }
  dropSize(name: string, dry: boolean): Promise<ChangeResult> {
    return this.#change("DELETE", `/api/sizes/${segment(name)}`, undefined, dry);
  }
  alterServer(options: Options, dry: boolean): Promise<ChangeResult> {
    return this.#change("PATCH", "/api/server", { options }, dry);
  }
  alterVolume(name: string, options: Options, dry: boolean): Promise<ChangeResult> {
    return this.#change("PATCH", `/api/volumes/${segment(name)}`, { options }, dry);
  }
  createRule(body: { name: string; tenant?: string; options: Options }, dry: boolean): Promise<ChangeResult> {
    return this.#change("POST", "/api/runaway-rules", body, dry);
  }
  dropRule(name: string, dry: boolean): Promise<ChangeResult> {
    return this.#change("DELETE", `/api/runaway-rules/${segment(name)}`, undefined, dry);
  }

  demo(): Promise<Demo> {
    return this.#get("/api/demo");
  }
  startStory(story: string): Promise<Demo> {
    return this.#request("POST", "/api/demo/start", { story });
  }
  stopStory(): Promise<Demo> {
    return this.#request("POST", "/api/demo/stop");
  }
  demoSpeed(speed: number): Promise<Demo> {
    return this.#request("PATCH", "/api/demo", { speed });
  }
  pauseDemo(paused: boolean): Promise<Demo> {
    return this.#request("PATCH", "/api/demo", { paused });
  }
  addGroup(group: Partial<ClientGroup>): Promise<Demo> {
    return this.#request("POST", "/api/demo/groups", group);
  }
  changeGroup(id: string, group: Partial<ClientGroup>): Promise<Demo> {
    return this.#request("PATCH", `/api/demo/groups/${encodeURIComponent(id)}`, group);
  }
  removeGroup(id: string): Promise<Demo> {
    return this.#request("DELETE", `/api/demo/groups/${encodeURIComponent(id)}`);
  }
  loadDemo(file: unknown): Promise<Demo> {
    return this.#request("PUT", "/api/demo/file", file);
  }
}

function tenantPath(name: Tenant["name"]): string {
  return `/api/tenants/${segment(name)}`;
}
