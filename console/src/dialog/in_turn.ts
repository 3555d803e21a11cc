/** A change of options as statements: one takes options back, one sets them, since no statement does both. */
import { ApiError } from "../api/client";
import type { ChangeResult, Options } from "../api/types";

export function statements(options: Options): Options[] {
  const part = (reset: boolean): Options =>
    Object.fromEntries(Object.entries(options).filter(([, value]) => (value === null) === reset));
  // What is taken back first makes room for what is set: a limit is gone before the promise is above it.
  return [part(true), part(false)].filter((one) => Object.keys(one).length > 0);
}

/** Runs them one after the other; null where there is nothing to change. An error after the first says what has happened already. */
export function inTurn(options: Options, send: (part: Options) => Promise<ChangeResult>): Promise<ChangeResult> | null {
  const parts = statements(options);
  return parts.length === 0 ? null : sendAll(parts, send);
}

async function sendAll(parts: readonly Options[], send: (part: Options) => Promise<ChangeResult>): Promise<ChangeResult> {
  const done: ChangeResult[] = [];
  for (const part of parts) {
    try {
      done.push(await send(part));
    } catch (error) {
      if (done.length === 0 || !(error instanceof ApiError)) throw error;
      throw new ApiError(error.status, {
        ...error.body,
        hint: `This has been done already: ${done.map(({ sql }) => sql).join("; ")}`,
      });
    }
  }
  return { sql: done.map(({ sql }) => sql).join(";\n"), notices: done.flatMap(({ notices }) => notices ?? []) };
}
