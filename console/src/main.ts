/** Begins: signs in if need be, then shows the page that the address names. */
import "uplot/dist/uPlot.min.css";
import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/controls.css";
import "./style/charts.css";
import "./style/table.css";
import "./style/pages.css";
import "./style/print.css";
import { ApiError } from "./api/client";
import { Disposal } from "./dom";
import { ledgerPage } from "./page/ledger";
import { loginPage } from "./page/login";
import { managePage } from "./page/manage";
import { overviewPage } from "./page/overview";
import { scenariosPage } from "./page/scenarios";
import { statementPage } from "./page/statement";
import { tenantPage } from "./page/tenant";
import { route, type Route } from "./router";
import { makeShell } from "./shell";
import { client, follow, picked, refreshServer, session, stream } from "./store";

const root = document.getElementById("root") as HTMLElement;
let shell: ReturnType<typeof makeShell> | null = null;
let page = new Disposal();

function show(to: Route): void {
  if (shell === null) return;
  page.dispose();
  page = new Disposal();
  follow(to.page === "tenant" ? to.name : null);
  document.title = `${titleOf(to)} · Rowhouse`;
  const { main } = shell;
  main.replaceChildren();
  main.scrollTop = 0;
  const pages = {
    overview: overviewPage,
    manage: managePage,
    ledger: ledgerPage,
    scenarios: scenariosPage,
    statement: statementPage,
    tenant: tenantPage,
  };
  (pages[to.page] as (main: HTMLElement, disposal: Disposal, route: Route) => void)(main, page, to);
}

function titleOf(to: Route): string {
  switch (to.page) {
    case "tenant":
      return to.name;
    case "statement":
      return `${to.name} ${to.month}`;
    default:
      return to.page[0]?.toUpperCase() + to.page.slice(1);
  }
}

function signedOut(why: string | null): void {
  stream.stop();
  page.dispose();
  shell?.dispose();
  shell = null;
  session.set(null);
  document.title = "Sign in · Rowhouse";
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
  loginPage(root, why, signedIn);
}

function signedIn(): void {
  shell = makeShell(root, () => signedOut(null));
  stream.start();
  void refreshServer().catch(() => {});
  show(route.value);
}

client.onSignedOut = () => {
  if (shell !== null) signedOut("Your session has ended.");
};
stream.onExpired = () => signedOut("Your session has ended.");
stream.stillSignedIn = async () => {
  try {
    await client.session();
    return true;
  } catch (error) {
    const over = error instanceof ApiError && error.status === 401;
    if (over && shell !== null) signedOut("Your session has ended.");
    return !over;
  }
};
stream.changed.watch((changed) => {
  if (changed === null) return;
  if (changed.what === "server" || changed.what === "volumes" || changed.what === "tenants" || changed.what === "sizes")
    void refreshServer().catch(() => {});
});
route.watch(show);
picked.watch(() => follow());
setInterval(() => shell !== null && follow(), 5000);
setInterval(() => {
  if (shell !== null && !document.hidden) void refreshServer().catch(() => {});
}, 10_000);

client.session().then(
  (found) => {
    session.set(found);
    signedIn();
  },
  (error: unknown) => signedOut(error instanceof ApiError && error.status !== 401 ? error.message : null),
);
