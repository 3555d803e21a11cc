/** How long to wait before the nth try to connect again (n from 0): 0.5 s, doubled each time, 15 s at most, and up to a quarter less by `draw` (0 to 1) so that pages do not come back all at once. */
export function backoff_ms(attempt: number, draw: number): number {
  const full = Math.min(15_000, 500 * 2 ** Math.min(attempt, 10));
  return Math.round(full * (1 - 0.25 * draw));
}
