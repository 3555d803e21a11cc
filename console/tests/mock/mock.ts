/** A page of the development server for each test. */
import { expect, test as base } from "@playwright/test";
import { serve } from "../../mock/server.mjs";
import { watchPage } from "../page";

export type Mock = Awaited<ReturnType<typeof serve>>;

export const test = base.extend<{ tenants: number; mock: Mock; faults: string[] }>({
  tenants: [200, { option: true }],
  mock: async ({ tenants }, use) => {
    const mock = await serve({ tenants });
    await use(mock);
    await mock.close();
  },
  faults: [
    async ({ page, mock }, use) => {
      const faults = watchPage(page, mock.url);
      await use(faults);
      expect(faults).toEqual([]);
    },
    { auto: true },
  ],
});
export { expect };
