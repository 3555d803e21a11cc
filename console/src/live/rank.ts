/** Who is drawn by name: those that used most of anything in the last minute, and a little longer those that are drawn already. Pure. */
import type { Frame } from "../api/types";
import { SYSTEM } from "./frames";

const SPAN_MS = 60_000;
/** Who is drawn gives way to who uses half as much again, so that two alike do not take turns. */
const HELD_FACTOR = 1.5;

/** The tenants of the last minute's frames, most important first: by the largest share they had of CPU, throughput or a volume's I/O. */
export function rankTenants(frames: readonly Frame[], isHeld: (id: number) => boolean): { id: number; name: string }[] {
  const last = frames.at(-1);
  if (last === undefined) return [];
  const use = new Map<number, { name: string; sums: number[] }>();
  const totals: number[] = [];
  for (let i = frames.length - 1; i >= 0; i -= 1) {
    const frame = frames[i] as Frame;
    if (frame.t_ms < last.t_ms - SPAN_MS) break;
    [frame.cpu, frame.throughput, ...frame.volumes].forEach((series, resource) => {
      totals[resource] = (totals[resource] ?? 0) + series.total;
      frame.tenants.forEach(([id, name], at) => {
        if (name === SYSTEM) return;
        const one = use.get(id) ?? { name, sums: [] };
        one.sums[resource] = (one.sums[resource] ?? 0) + (series.values[at] ?? 0);
        use.set(id, one);
      });
    });
  }
  const share = (id: number, sums: number[]): number =>
    Math.max(...sums.map((sum, resource) => sum / Math.max(1e-9, totals[resource] ?? 0))) * (isHeld(id) ? HELD_FACTOR : 1);
  return [...use]
    .map(([id, { name, sums }]) => ({ id, name, share: share(id, sums) }))
    .sort((a, b) => b.share - a.share || a.id - b.id)
    .map(({ id, name }) => ({ id, name }));
}
