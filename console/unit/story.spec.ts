import { expect, test } from "@playwright/test";
import { typed } from "../src/api/typed";
import { stepAt, storyTime } from "../src/live/story";

const steps = [0, 20, 60].map((at_s) => ({ at_s, text: "" }));

test("the step that is told is the last one that has come", () => {
  expect([0, 19.9, 20, 59, 60, 1000].map((at_s) => stepAt({ at_s, steps }))).toEqual([0, 0, 1, 1, 2, 2]);
  expect(stepAt({ at_s: -1, steps })).toBe(0);
});

test("a time in a story is minutes and seconds", () => {
  expect([0, 9.99, 60, 605].map(storyTime)).toEqual(["0:00", "0:09", "1:00", "10:05"]);
});

test("numbers are numbers, anything else is text as it stands", () => {
  const given = {
    cpu: "0.5",
    rows: "500",
    memory: "64MB",
    queries: "1-19,21-22",
    script: "a=b=c",
    max: "none",
    month: "1-2",
    set: 3,
  };
  expect(typed(given)).toEqual({ ...given, cpu: 0.5, rows: 500 });
});
