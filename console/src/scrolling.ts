/** Whether something on the page is being scrolled. What is drawn anew every second waits for its end, so that the page's thread is there for the frames of scrolling. */
import { Signal } from "./signal";

/** After the last event: wheels and keys scroll in steps. */
const REST_MS = 150;
let rest: ReturnType<typeof setTimeout> | undefined;

export const scrolling = new Signal(false);
addEventListener(
  "scroll",
  () => {
    clearTimeout(rest);
    rest = setTimeout(() => scrolling.set(false), REST_MS);
    scrolling.set(true);
  },
  { capture: true, passive: true },
);
