/** Rows of a long list of which pieces are fetched as they come into view. Pure. */
export const PAGE_ROWS = 100;

export class RowWindow<T> {
  readonly #pages = new Map<number, T[]>();
  #matched: number | null = null;

  /** How long the list is; null until the first piece has come. */
  get matched(): number | null {
    return this.#matched;
  }
  row(index: number): T | undefined {
    return this.#pages.get(Math.floor(index / PAGE_ROWS))?.[index % PAGE_ROWS];
  }
  /** Numbers of the pieces with rows `from` up to but not `to`, all or those that are not here. */
  pages(from: number, to: number, which: "all" | "absent"): number[] {
    const end = this.#matched === null ? to : Math.min(to, this.#matched);
    const numbers: number[] = [];
    for (let page = Math.floor(Math.max(0, from) / PAGE_ROWS); page * PAGE_ROWS < Math.max(end, 1); page += 1) {
      if (which === "all" || !this.#pages.has(page)) numbers.push(page);
    }
    return numbers;
  }
  put(page: number, rows: T[], matched: number): void {
    // A list that changed its length has moved its rows: what is further away is fetched again when it is looked at.
    if (this.#matched !== null && this.#matched !== matched) this.#pages.clear();
    this.#matched = matched;
    this.#pages.set(page, rows);
  }
  /** Forgets all pieces but those that hold rows `from` up to `to`. */
  keepOnly(from: number, to: number): void {
    for (const page of this.#pages.keys()) if ((page + 1) * PAGE_ROWS <= from || page * PAGE_ROWS >= to) this.#pages.delete(page);
  }
  clear(): void {
    this.#pages.clear();
    this.#matched = null;
  }
}
