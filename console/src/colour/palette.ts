/**
 * The colours of the places, light and dark: eight that stay apart for readers with protanopia, deuteranopia and tritanopia too (`unit/palette.spec.ts` holds them to
 * it), in the same order of hues in both themes. Lightness differs between neighbours, so that they are told apart without hue.
 */
export const PLACES_LIGHT = ["#4ba0f4", "#855f03", "#129175", "#911837", "#694db3", "#b49b37", "#015a68", "#df74b5"] as const;
export const PLACES_DARK = ["#73b7ff", "#be9034", "#39f1c6", "#c95064", "#8e74dd", "#e7cd6c", "#308799", "#f185c6"] as const;

/** What the page's style says of colours, read once for each theme. */
export interface Palette {
  dark: boolean;
  places: readonly string[];
  system: string;
  others: string;
  ink: string;
  muted: string;
  line: string;
  surface: string;
  accent: string;
  bad: string;
  warn: string;
}

export function readPalette(dark: boolean): Palette {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(name).trim();
  return {
    dark,
    places: dark ? PLACES_DARK : PLACES_LIGHT,
    system: of("--band-system"),
    others: of("--band-others"),
    ink: of("--ink"),
    muted: of("--muted"),
    line: of("--line"),
    surface: of("--surface"),
    accent: of("--accent"),
    bad: of("--bad"),
    warn: of("--warn"),
  };
}
