// Eight colours that everyone tells apart: distances in OKLab as seen with each of the three dichromacies (Machado, Oliveira and Fernandes 2009, table 1, severity 1.0).
import { expect, test } from "@playwright/test";
import { PLACES_DARK, PLACES_LIGHT } from "../src/colour/palette";
import { SLOTS } from "../src/colour/assign";

type Three = [number, number, number];

const VIEWS: Record<string, Three[]> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

function linear(hex: string): Three {
  return [1, 3, 5].map((at) => {
    const value = parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as Three;
}
function seen(colour: Three, view: Three[]): Three {
  return view.map((row) => Math.min(1, Math.max(0, row[0] * colour[0] + row[1] * colour[1] + row[2] * colour[2]))) as Three;
}
function oklab([r, g, b]: Three): Three {
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}
function contrast(a: Three, b: Three): number {
  const of = ([r, g, blue]: Three): number => 0.2126 * r + 0.7152 * g + 0.0722 * blue + 0.05;
  return Math.max(of(a), of(b)) / Math.min(of(a), of(b));
}

for (const [theme, places, surface] of [
  ["light", PLACES_LIGHT, "#ffffff"],
  ["dark", PLACES_DARK, "#15191f"],
] as const) {
  test(`${theme}: there is a colour for each place`, () => {
    expect(places).toHaveLength(SLOTS);
  });
  for (const [view, matrix] of Object.entries(VIEWS)) {
    test(`${theme}: any two places are told apart with ${view}`, () => {
      // A just noticeable difference in OKLab is about 0.02: areas next to each other with four times that are not confused.
      const least = view === "normal" ? 0.14 : 0.075;
      const colours = places.map((hex) => oklab(seen(linear(hex), matrix)));
      colours.forEach((a, i) =>
        colours.slice(0, i).forEach((b, j) => {
          expect(Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]), `${places[i]} and ${places[j]}`).toBeGreaterThan(least);
        }),
      );
    });
  }
  test(`${theme}: lines stand out from what is behind them`, () => {
    for (const hex of places) expect(contrast(linear(hex), linear(surface)), hex).toBeGreaterThan(2.5);
  });
}
