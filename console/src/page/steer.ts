/** Changes of the demo: each answers how everything is afterwards, so that the page need not wait for the stream. */
import { ApiError } from "../api/client";
import type { Demo } from "../api/types";
import { stream } from "../store";
import { toast } from "../toast";

/** Runs it; a refusal is said in passing. */
export async function steer(change: () => Promise<Demo>): Promise<void> {
  try {
    stream.demo.set(await change());
  } catch (error) {
    toast(error instanceof ApiError ? error.message : String(error), "error");
  }
}
