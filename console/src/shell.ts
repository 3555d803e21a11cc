/** What stands around every page: where one is, whether the figures are live, who is picked out, light or dark, and the way out. */
import { themeChoice, palette, type ThemeChoice } from "./colour/theme";
import { h, icon, replace, setText, type IconName } from "./dom";
import { seconds } from "./format";
import { href, route, type Route } from "./router";
import { client, colourOf, picked, places, server, session, stream } from "./store";

const PAGES: { page: "overview" | "manage" | "ledger" | "scenarios"; label: string; icon: IconName }[] = [
  { page: "overview", label: "Overview", icon: "overview" },
  { page: "manage", label: "Manage", icon: "manage" },
  { page: "ledger", label: "Ledger", icon: "ledger" },
  { page: "scenarios", label: "Scenarios", icon: "scenarios" },
];
const THEMES: { choice: ThemeChoice; icon: IconName; label: string }[] = [
  { choice: "auto", icon: "auto", label: "as the system" },
  { choice: "light", icon: "sun", label: "light" },
  { choice: "dark", icon: "moon", label: "dark" },
];

function tabOf(current: Route): string {
  if (current.page === "tenant") return "overview";
  return current.page === "statement" ? "ledger" : current.page;
}

/** Makes the frame and answers where the page goes. Lives as long as the session. */
export function makeShell(root: HTMLElement, onLogout: () => void): { main: HTMLElement; dispose: () => void } {
  const undo: (() => void)[] = [];
  const links = PAGES.map(({ page, label, icon: name }) => ({
    page,
    element: h("a", { class: "nav-link", href: href({ page } as Route) }, icon(name), h("span", null, label)),
  }));
  const nav = h("nav", { class: "nav", "aria-label": "Pages" }, ...links.map(({ element }) => element));
  const connection = h(
    "span",
    { class: "connection", role: "status" },
    h("i", { class: "connection-dot", "aria-hidden": "true" }),
    h("span", { class: "connection-text" }),
  );
  const pickedBox = h("div", { class: "picked-box" });
  const themeButton = h("button", {
    type: "button",
    class: "button-icon",
    onclick: () => {
      const at = THEMES.findIndex(({ choice }) => choice === themeChoice.value);
      themeChoice.set(THEMES[(at + 1) % THEMES.length]?.choice ?? "auto");
    },
  });
  const main = h("main", { class: "main", id: "main", tabindex: "-1" });
  const version = h("span", { class: "brand-version" });
  const signed = session.value;
  replace(
    root,
    h(
      "a",
      {
        class: "skip",
        href: "#main",
        onclick: (event) => {
          event.preventDefault();
          main.focus();
        },
      },
      "Skip to the page",
    ),
    h(
      "header",
      { class: "top" },
      h(
        "a",
        { class: "brand", href: "#/", "aria-label": "Rowhouse, to the overview" },
        h("img", { src: "/mark.svg", alt: "", width: "22", height: "22" }),
        h("span", { class: "brand-name" }, "Rowhouse"),
      ),
      version,
      pickedBox,
      h("span", { class: "grow" }),
      connection,
      themeButton,
      h(
        "span",
        { class: "who", title: `Signed in as ${signed?.role}` },
        h("span", { class: "who-name" }, signed?.user ?? ""),
        signed?.role === "viewer" ? h("span", { class: "badge" }, "viewer") : null,
      ),
      h(
        "button",
        {
          type: "button",
          class: "button-icon",
          "aria-label": "Sign out",
          title: "Sign out",
          onclick: () =>
            void client
              .logout()
              .catch(() => {})
              .finally(onLogout),
        },
        icon("leave"),
      ),
    ),
    nav,
    main,
  );

  const showTheme = (): void => {
    const { icon: name, label } = THEMES.find(({ choice }) => choice === themeChoice.value) ?? THEMES[0]!;
    replace(themeButton, icon(name));
    themeButton.title = `Colours: ${label}`;
    themeButton.setAttribute("aria-label", `Colours: ${label}. Change`);
  };
  const showRoute = (): void => {
    for (const { page, element } of links) {
      if (tabOf(route.value) === page) element.setAttribute("aria-current", "page");
      else element.removeAttribute("aria-current");
    }
  };
  const showServer = (): void => {
    const now = server.value;
    const scenarios = links.find(({ page }) => page === "scenarios");
    if (scenarios) scenarios.element.hidden = now?.demo !== true;
    setText(version, now?.version ?? "");
  };
  const showPicked = (): void => {
    const tenant = picked.value;
    pickedBox.classList.toggle("is-empty", tenant === null);
    if (tenant === null) {
      replace(pickedBox);
      return;
    }
    const swatch = h("i", { class: "swatch" });
    swatch.style.setProperty("--swatch", colourOf(tenant.id) ?? "transparent");
    replace(
      pickedBox,
      h(
        "a",
        { class: "picked", href: href({ page: "tenant", name: tenant.name }), title: `${tenant.name}: open` },
        swatch,
        h("span", { class: "picked-name" }, tenant.name),
      ),
      h(
        "button",
        {
          type: "button",
          class: "button-icon button-tiny",
          "aria-label": `Stop picking out ${tenant.name}`,
          title: "Stop picking out",
          onclick: () => picked.set(null),
        },
        icon("close"),
      ),
    );
  };
  const showConnection = (): void => {
    const now = stream.connection.value;
    connection.dataset["state"] = now.state;
    const text = {
      off: () => "Not connected",
      connecting: () => "Connecting",
      live: () => "Live",
      silent: () => `No figures for ${seconds(Math.round((Date.now() - ("since_ms" in now ? now.since_ms : 0)) / 1000))}`,
      lost: () =>
        `Disconnected, again in ${Math.max(0, Math.ceil((("retry_ms" in now ? now.retry_ms : 0) - Date.now()) / 1000))} s`,
    }[now.state]();
    setText(connection.querySelector(".connection-text") as HTMLElement, text);
    root.classList.toggle("is-stale", now.state === "lost" || now.state === "silent");
  };
  for (const [signal, show] of [
    [themeChoice, showTheme],
    [route, showRoute],
    [server, showServer],
    [picked, showPicked],
    [places, showPicked],
    [palette, showPicked],
    [stream.connection, showConnection],
  ] as const) {
    show();
    undo.push((signal as { watch(run: () => void): () => void }).watch(show));
  }
  const timer = setInterval(() => stream.connection.value.state !== "live" && showConnection(), 500);
  undo.push(() => clearInterval(timer));
  return { main, dispose: () => undo.forEach((one) => one()) };
}
