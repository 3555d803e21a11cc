/** A value that others watch. */
export class Signal<T> {
  #value: T;
  readonly #watchers = new Set<(value: T) => void>();

  constructor(value: T) {
    this.#value = value;
  }
  get value(): T {
    return this.#value;
  }
  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    this.tell();
  }
  /** Calls every watcher though the value may be the same object. */
  tell(): void {
    for (const watcher of [...this.#watchers]) watcher(this.#value);
  }
  /** Calls `watcher` at every change; what is returned ends that. */
  watch(watcher: (value: T) => void): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }
}
