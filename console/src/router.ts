/** Pages by the address's fragment, so that the server has one page to serve. */
import { Signal } from "./signal";

export type Route =
  | { page: "overview" }
  | { page: "tenant"; name: string }
  | { page: "manage" }
  | { page: "ledger"; tenant?: string; broken?: boolean }
  | { page: "statement"; name: string; month: string }
  | { page: "scenarios" };

export function href(route: Route): string {
  switch (route.page) {
    case "overview":
      return "#/";
    case "tenant":
      return `#/tenant/${encodeURIComponent(route.name)}`;
    case "statement":
      return `#/statement/${encodeURIComponent(route.name)}/${route.month}`;
    case "ledger": {
      const query = new URLSearchParams({
        ...(route.tenant ? { tenant: route.tenant } : {}),
        ...(route.broken ? { broken: "true" } : {}),
      }).toString();
      return `#/ledger${query === "" ? "" : `?${query}`}`;
    }
    default:
      return `#/${route.page}`;
  }
}

/** Of a text that is no encoding: itself, which names nothing. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page, name, month] = path.split("/").map(decoded);
  const params = new URLSearchParams(query);
  if (page === "tenant" && name) return { page, name };
  if (page === "statement" && name && month && /^\d{4}-\d{2}$/.test(month)) return { page, name, month };
  if (page === "manage" || page === "scenarios") return { page };
  if (page === "ledger") {
    const tenant = params.get("tenant");
    return { page, ...(tenant ? { tenant } : {}), ...(params.get("broken") === "true" ? { broken: true } : {}) };
  }
  return { page: "overview" };
}

export const route = new Signal<Route>(parse(location.hash));
addEventListener("hashchange", () => route.set(parse(location.hash)));
