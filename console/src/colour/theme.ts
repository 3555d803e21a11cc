/** Light or dark: the reader's system says, unless the reader said otherwise here. */
import { Signal } from "../signal";
import { readPalette, type Palette } from "./palette";

export type ThemeChoice = "auto" | "light" | "dark";
const KEY = "rowhouse.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function stored(): ThemeChoice {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "auto";
}

export const themeChoice = new Signal<ThemeChoice>(stored());
export const palette = new Signal<Palette>(apply());

function apply(): Palette {
  const dark = themeChoice.value === "dark" || (themeChoice.value === "auto" && system.matches);
  document.documentElement.dataset["theme"] = dark ? "dark" : "light";
  return readPalette(dark);
}

themeChoice.watch((choice) => {
  if (choice === "auto") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, choice);
  palette.set(apply());
});
system.addEventListener("change", () => palette.set(apply()));
