/** Stories that run by themselves, and client groups to make one's own, beside the charts that show what they do. */
import { ApiError } from "../api/client";
import type { Demo } from "../api/types";
import { errorBox } from "../dialog/dialog";
import { append, h, replace, type Disposal } from "../dom";
import { client, isAdministrator, stream } from "../store";
import { groupsPanel } from "./groups";
import { overbookingSwitch, policySwitch } from "./manage";
import { LiveCharts } from "./overview";
import { panel } from "./parts";
import { RunningStory, storyCards } from "./story";

export function scenariosPage(main: HTMLElement, disposal: Disposal): void {
  const may = isAdministrator();
  const charts = new LiveCharts(disposal, 150);
  const live = h("div", { class: "live live-small" }, charts.grid, charts.who);
  const running = new RunningStory(may);
  const stories = panel("Stories");
  const division = panel(
    "Who comes first",
    h("div", { class: "switches" }, policySwitch(disposal, may), overbookingSwitch(disposal, may)),
  );
  const groups = groupsPanel(disposal, may);
  const panels = h("div", { class: "panels" }, running.element, stories.element, live, groups.element, division.element);
  append(main, [
    h(
      "header",
      { class: "page-head" },
      h("h1", null, "Scenarios"),
      h("p", { class: "page-lead" }, "Real workloads over the wire. Watch who notices."),
    ),
    panels,
  ]);
  charts.start();

  let drawn = "";
  const show = (demo: Demo | null): void => {
    if (demo === null) return;
    groups.show(demo);
    const key = JSON.stringify([demo.stories, demo.running?.story]);
    if (key === drawn) return running.show(demo);
    drawn = key;
    // Moved, it loses the keyboard's focus, which goes on to what steers the story, or begins the next one.
    const hadFocus = stories.element.contains(document.activeElement) || running.element.contains(document.activeElement);
    running.show(demo);
    // While a story runs its charts and groups stand beside what it tells; other stories can wait.
    panels.insertBefore(stories.element, demo.running === null ? live : null);
    replace(stories.body, storyCards(demo, may));
    if (hadFocus) (demo.running === null ? stories : running).element.querySelector("button")?.focus();
  };
  disposal.add(stream.demo.watch(show));
  show(stream.demo.value);
  client.demo().then(
    (demo) => stream.demo.set(demo),
    (error: unknown) => {
      if (disposal.signal.aborted) return;
      const isNone = error instanceof ApiError && error.status === 404;
      replace(
        stories.body,
        isNone
          ? h("p", { class: "empty" }, "This server was not started by “rowhouse demo”: it has no stories.")
          : errorBox(error),
      );
    },
  );
}
