/**
 * Which tenant has which of the palette's places. A tenant keeps its place while it is seen, and for as long as nobody else needs it after that, so a colour
 * means the same tenant in every chart and on every page. Eight places: more hues would not be told apart by everyone, so the rest are drawn together.
 */

export const SLOTS = 8;

export interface Holder {
  id: number;
  name: string;
  seen_ms: number;
}

/** Index: place. */
export type Places = readonly (Holder | null)[];

export function emptyPlaces(): Places {
  return Array.from({ length: SLOTS }, () => null);
}

/** Where a tenant would like to be, so that it comes back to the same colour after a reload. */
export function preferredPlace(id: number): number {
  return Math.imul(id ^ (id >>> 15), 0x2c1b3c6d) >>> 29;
}

/**
 * Gives `wanted` (most important first) places, those of `pinned` before all. Who has one keeps it. Who is new gets the preferred place if it is free, else the
 * first free one, else that of whoever was not wanted for longest. Of more than there are places the last of `wanted` get none.
 */
export function assignPlaces(
  places: Places,
  wanted: readonly { id: number; name: string }[],
  pinned: number | null,
  now_ms: number,
): Places {
  const ranked = [...wanted.filter((tenant) => tenant.id === pinned), ...wanted.filter((tenant) => tenant.id !== pinned)].slice(
    0,
    SLOTS,
  );
  const next = [...places];
  const isWanted = (holder: Holder | null): boolean => holder !== null && ranked.some((tenant) => tenant.id === holder.id);
  for (const tenant of ranked) {
    const held = next.findIndex((holder) => holder?.id === tenant.id);
    const place = held >= 0 ? held : freePlace(next, preferredPlace(tenant.id), isWanted);
    if (place < 0) continue;
    next[place] = { id: tenant.id, name: tenant.name, seen_ms: now_ms };
  }
  return next;
}

function freePlace(places: Places, preferred: number, isWanted: (holder: Holder | null) => boolean): number {
  if (places[preferred] === null) return preferred;
  const free = places.indexOf(null);
  if (free >= 0) return free;
  let oldest = -1;
  places.forEach((holder, place) => {
    if (holder === null || isWanted(holder)) return;
    if (oldest < 0 || holder.seen_ms < (places[oldest]?.seen_ms ?? 0)) oldest = place;
  });
  return oldest;
}

export function placeOf(places: Places, id: number): number | null {
  const place = places.findIndex((holder) => holder?.id === id);
  return place < 0 ? null : place;
}

export function placeOfName(places: Places, name: string): number | null {
  const place = places.findIndex((holder) => holder?.name === name);
  return place < 0 ? null : place;
}
