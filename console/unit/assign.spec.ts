import { expect, test } from "@playwright/test";
import { assignPlaces, emptyPlaces, placeOf, preferredPlace, SLOTS } from "../src/colour/assign";

const tenant = (id: number) => ({ id, name: `t${id}` });
const ids = (...all: number[]) => all.map(tenant);

test("a tenant keeps its place while others come and go", () => {
  let places = assignPlaces(emptyPlaces(), ids(1, 2, 3), null, 0);
  const place = placeOf(places, 2);
  for (let now = 1; now < 200; now += 1) {
    places = assignPlaces(places, ids(2, 10 + (now % 40), 60 + (now % 30), 100 + now), null, now);
    expect(placeOf(places, 2)).toBe(place);
  }
});

test("nobody has two places, and no place has two tenants", () => {
  let places = emptyPlaces();
  for (let now = 0; now < 500; now += 1) {
    const wanted = Array.from({ length: 11 }, (_, i) => tenant(((now * 7 + i * 13) % 37) + 1));
    places = assignPlaces(places, [...new Map(wanted.map((one) => [one.id, one])).values()], null, now);
    const held = places.flatMap((holder) => (holder ? [holder.id] : []));
    expect(new Set(held).size).toBe(held.length);
    expect(places).toHaveLength(SLOTS);
  }
});

test("of too many the last get none, and who is pinned always has one", () => {
  const all = Array.from({ length: SLOTS + 3 }, (_, i) => tenant(i + 1));
  const places = assignPlaces(emptyPlaces(), all, SLOTS + 3, 0);
  expect(placeOf(places, SLOTS + 3)).not.toBeNull();
  expect(placeOf(places, 1)).not.toBeNull();
  expect(placeOf(places, SLOTS)).toBeNull();
});

test("who was not wanted for longest gives way, not who is wanted now", () => {
  let places = assignPlaces(
    emptyPlaces(),
    Array.from({ length: SLOTS }, (_, i) => tenant(i + 1)),
    null,
    0,
  );
  places = assignPlaces(places, ids(1, 2, 3, 4, 5, 6, 7), null, 10);
  places = assignPlaces(places, ids(1, 2, 3, 4, 5, 6), null, 20);
  places = assignPlaces(places, ids(1, 2, 3, 4, 5, 6, 99), null, 30);
  expect(placeOf(places, 8)).toBeNull();
  expect(placeOf(places, 7)).not.toBeNull();
  expect(placeOf(places, 99)).not.toBeNull();
});

test("a tenant that is alone gets the place it prefers, again and again", () => {
  for (let id = 1; id < 200; id += 1) {
    expect(preferredPlace(id)).toBeGreaterThanOrEqual(0);
    expect(preferredPlace(id)).toBeLessThan(SLOTS);
    expect(placeOf(assignPlaces(emptyPlaces(), ids(id), null, 0), id)).toBe(preferredPlace(id));
  }
});
