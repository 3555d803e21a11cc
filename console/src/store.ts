/** What all pages share: who is signed in, the server's figures, the stream, the tenant picked out, and the places of the palette. */
import { Client } from "./api/client";
import type { Server, Session } from "./api/types";
import { assignPlaces, emptyPlaces, placeOf, type Holder, type Places } from "./colour/assign";
import { palette } from "./colour/theme";
import { SYSTEM } from "./live/frames";
import { rankTenants } from "./live/rank";
import { Stream } from "./live/stream";
import { Signal } from "./signal";

export interface Picked {
  id: number;
  name: string;
}

/** Something that was done at an instant: charts draw a line there. */
export interface Mark {
  t_ms: number;
  text: string;
}

export const client = new Client();
/** How long after somebody did something on the page what it asks for counts as theirs. */
const ATTENDED_MS = 60_000;
let attended_ms = Date.now();
for (const kind of ["pointerdown", "pointermove", "keydown", "wheel"])
  addEventListener(kind, () => (attended_ms = Date.now()), { capture: true, passive: true });
client.isAttended = () => Date.now() - attended_ms < ATTENDED_MS;
export const stream = new Stream();
export const session = new Signal<Session | null>(null);
export const server = new Signal<Server | null>(null);
export const picked = new Signal<Picked | null>(null);
export const marks = new Signal<readonly Mark[]>([]);
/** Statements that this page has run since it was opened, newest first. */
export const statementsRun = new Signal<readonly Mark[]>([]);
export const places = new Signal<Places>(storedPlaces());

const PLACES_KEY = "rowhouse.places";

function storedPlaces(): Places {
  try {
    const read = JSON.parse(localStorage.getItem("rowhouse.places") ?? "[]") as (Holder | null)[];
    return emptyPlaces().map((_, place) => (read[place]?.name === SYSTEM ? null : (read[place] ?? null)));
  } catch {
    return emptyPlaces();
  }
}

export function mark(text: string): void {
  marks.set([...marks.value.slice(-49), { t_ms: Date.now(), text }]);
}

export function ran(sql: string): void {
  const one = { t_ms: Date.now(), text: sql };
  statementsRun.set([one, ...statementsRun.value.slice(0, 99)]);
  mark(sql);
}

export function isAdministrator(): boolean {
  return session.value?.role === "administrator";
}

export async function refreshServer(): Promise<void> {
  server.set(await client.server());
}

/** The tenant whose page is open. */
let detailed: string | null = null;
/** Names that the stream is asked for beside the busiest. */
let watched: readonly string[] = [];
let watched_ms = 0;
const REWATCH_MS = 20_000;

/**
 * Asks the stream for the tenants that are drawn by name, so that their lines have no holes while they are not among the busiest, and in detail for the one whose page
 * is open. Since each new question means a new connection, who is drawn is asked for again at most every `REWATCH_MS`; who is picked out at once.
 */
export function follow(tenant: string | null = detailed): void {
  detailed = tenant;
  const drawn = places.value.flatMap((holder) => (holder === null ? [] : [holder.name]));
  const urgent = picked.value !== null && !watched.includes(picked.value.name);
  const differs = watched.length === 0 || drawn.some((name) => !watched.includes(name));
  if (urgent || (differs && Date.now() - watched_ms > REWATCH_MS)) {
    watched = [...new Set([SYSTEM, ...(picked.value === null ? [] : [picked.value.name]), ...drawn])].sort();
    watched_ms = Date.now();
  }
  stream.want({ watch: watched, tenant: detailed });
}

/** Its number, once a frame has told it. */
let systemId: number | null = null;

/** The server's own tenant, as one picks it out. */
export function systemTenant(): Picked | null {
  return systemId === null ? null : { id: systemId, name: SYSTEM };
}

/** The colour of a tenant, null where it has no place. */
export function colourOf(id: number): string | null {
  if (id === systemId) return palette.value.system;
  const place = placeOf(places.value, id);
  return place === null ? null : (palette.value.places[place] ?? null);
}

stream.frames.watch((frames) => {
  const last = frames.at(-1);
  if (last === undefined) return;
  systemId = last.tenants.find(([, name]) => name === SYSTEM)?.[0] ?? systemId;
  const wanted = rankTenants(frames, (id) => placeOf(places.value, id) !== null);
  setPlaces(assignPlaces(places.value, wanted, picked.value?.id ?? null, last.t_ms));
});

/** Of the story that runs: charts show when each began. */
let step: string | null = null;
stream.demo.watch((demo) => {
  if (demo === null) return;
  const { running } = demo;
  const now = running === null ? null : `${running.story} ${running.step}`;
  if (now === step) return;
  // What ran already when this page was opened began at a time that nobody here knows.
  if (step !== null || (running !== null && running.at_s < 2)) mark(running?.steps[running.step]?.text ?? "The story ended");
  step = now;
});

picked.watch((tenant) => {
  if (tenant !== null && tenant.name !== SYSTEM) {
    const others = places.value.filter((holder) => holder !== null);
    setPlaces(assignPlaces(places.value, [tenant, ...others.sort((a, b) => b.seen_ms - a.seen_ms)], tenant.id, Date.now()));
  }
});

function setPlaces(next: Places): void {
  const same = next.every((holder, place) => {
    const held = places.value[place];
    return holder?.id === held?.id && holder?.name === held?.name;
  });
  if (same) {
    // Only when each was last seen: nobody draws that.
    next.forEach((holder, place) => {
      const held = places.value[place];
      if (holder && held) held.seen_ms = holder.seen_ms;
    });
    return;
  }
  places.set(next);
  localStorage.setItem(PLACES_KEY, JSON.stringify(next));
}

/** The number of a tenant that has a place, by its name. */
export function idOfName(name: string): number | null {
  if (name === SYSTEM) return systemId;
  return places.value.find((holder) => holder?.name === name)?.id ?? null;
}
