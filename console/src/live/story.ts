/** How far a story is. */
import type { Demo } from "../api/types";

type Running = NonNullable<Demo["running"]>;

/** The step that is told at this second of the story; the first before any has come. */
export function stepAt(running: Pick<Running, "at_s" | "steps">): number {
  return Math.max(0, running.steps.filter(({ at_s }) => at_s <= running.at_s).length - 1);
}

/** A time in a story: `1:05`. */
export function storyTime(at_s: number): string {
  const whole = Math.floor(at_s);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
