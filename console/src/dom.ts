/** Elements without a framework: `h` makes one, `replace` swaps children. Text is never parsed as markup. */

export type Child = Node | string | number | null | undefined | false;
type Handlers = { [K in keyof HTMLElementEventMap as `on${K}`]?: (event: HTMLElementEventMap[K]) => void };
/** `class`, `on…` handlers, properties that are booleans, and otherwise attributes. `undefined` and `null` leave one out. */
export type Props = Handlers & Record<string, unknown>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props | null = null,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (props !== null) setProps(element, props);
  append(element, children);
  return element;
}

function setProps(element: HTMLElement, props: Props): void {
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value as EventListener);
    else if (typeof value === "boolean" && key in element) (element as unknown as Record<string, unknown>)[key] = value;
    else if (key === "value" && "value" in element) (element as HTMLInputElement).value = String(value);
    else element.setAttribute(key === "class" ? "class" : key, String(value));
  }
}

export function append(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function replace(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

/** As `replace`; what had the keyboard's focus in it has it afterwards, if there is something of the same name. */
export function redraw(element: Element, ...children: Child[]): void {
  const focused = document.activeElement;
  const name = focused !== null && element.contains(focused) ? (focused.getAttribute("aria-label") ?? focused.textContent) : null;
  replace(element, ...children);
  if (name === null) return;
  for (const one of element.querySelectorAll<HTMLElement>("a, button, input, select, [tabindex]")) {
    if ((one.getAttribute("aria-label") ?? one.textContent) === name) return one.focus({ preventScroll: true });
  }
}

/** Sets text only where it differs, so that a page that ticks every second leaves the rest of the document alone. Where there is a text already it stays the same node, which costs the browser less than another. */
export function setText(element: Element, text: string): void {
  const only = element.childNodes.length === 1 ? element.firstChild : null;
  if (only instanceof Text) {
    if (only.data !== text) only.data = text;
  } else if (element.textContent !== text) element.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  overview: "M3 13h4l3-8 4 14 3-6h4",
  manage: "M4 7h10M18 7h2M4 17h2M10 17h10M14 4v6M6 14v6",
  ledger: "M6 3h9l4 4v14H6zM9 11h7M9 15h7M9 7h3",
  scenarios: "M7 4l12 8-12 8z",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2M12 20v2M4 12H2M22 12h-2M5 5l1.500 1.500M17.500 17.500L19 19M19 5l-1.500 1.500M6.500 17.500L5 19",
  moon: "M20 14.500A8 8 0 019.500 4a8 8 0 1010.500 10.500z",
  auto: "M12 3a9 9 0 100 18zM12 3a9 9 0 010 18",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  search: "M11 4a7 7 0 100 14 7 7 0 000-14zM16 16l5 5",
  table: "M3 5h18v14H3zM3 10h18M3 15h18M9 5v14",
  broken: "M12 3l10 18H2zM12 10v5M12 18v.5",
  pick: "M12 3v4M12 17v4M3 12h4M17 12h4M12 8a4 4 0 100 8 4 4 0 000-8z",
  up: "M12 19V6M6 11l6-6 6 6",
  down: "M12 5v13M6 13l6 6 6-6",
  print: "M7 8V3h10v5M7 17H4V8h16v9h-3M7 14h10v7H7z",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  upload: "M12 16V5M7 9l5-5 5 5M4 20h16",
  plus: "M12 5v14M5 12h14",
  stop: "M6 6h12v12H6z",
  pause: "M8 5v14M16 5v14",
  leave: "M14 4H5v16h9M10 12h11M17 8l4 4-4 4",
} as const;
export type IconName = keyof typeof ICONS;

export function icon(name: IconName): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** What was set up for a page and has to be undone when it is left. */
export class Disposal {
  #undo: (() => void)[] = [];
  readonly #abort = new AbortController();

  /** Aborted when the page is left: requests that nobody waits for any more. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }
  add(undo: () => void): void {
    if (this.signal.aborted) undo();
    else this.#undo.push(undo);
  }
  every(period_ms: number, run: () => void): void {
    const timer = setInterval(run, period_ms);
    this.add(() => clearInterval(timer));
  }
  dispose(): void {
    this.#abort.abort();
    for (const undo of this.#undo.splice(0).reverse()) undo();
  }
}
