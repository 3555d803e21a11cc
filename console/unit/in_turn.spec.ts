import { expect, test } from "@playwright/test";
import { ApiError } from "../src/api/client";
import { inTurn, statements } from "../src/dialog/in_turn";

test("what is taken back and what is set are statements of their own, in this order", () => {
  expect(statements({ cpu: "2", cpu_max: null, iops: "10" })).toEqual([{ cpu_max: null }, { cpu: "2", iops: "10" }]);
  expect(statements({ cpu: "2" })).toEqual([{ cpu: "2" }]);
  expect(inTurn({}, () => Promise.reject(new Error("nothing to send")))).toBeNull();
});

test("one after the other, with the notices of both", async () => {
  const send = (part: object) =>
    Promise.resolve({
      sql: Object.keys(part).join(),
      notices: [{ severity: "WARNING", message: Object.keys(part).join(), detail: null }],
    });
  const result = await inTurn({ a: null, b: "1" }, send);
  expect(result?.sql).toBe("a;\nb");
  expect(result?.notices?.map(({ message }) => message)).toEqual(["a", "b"]);
});

test("an error after the first says what has been done", async () => {
  const refused = new ApiError(400, { code: "22023", message: "no", detail: null, hint: null });
  const send = (part: Record<string, unknown>) => ("b" in part ? Promise.reject(refused) : Promise.resolve({ sql: "RESET a" }));
  await expect(inTurn({ a: null, b: "1" }, send)).rejects.toMatchObject({
    body: { code: "22023", hint: "This has been done already: RESET a" },
  });
  await expect(inTurn({ b: "1" }, send)).rejects.toBe(refused);
});
