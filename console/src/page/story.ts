/** The stories that there are, and the one that runs: how far it is, what it tells now, and what steers it. */
import type { Demo } from "../api/types";
import { h, icon, redraw, replace, setText } from "../dom";
import { stepAt, storyTime } from "../live/story";
import { client } from "../store";
import { steer } from "./steer";

const SPEEDS = [0.5, 1, 2, 5, 10];

export function storyCards(demo: Demo, may: boolean): HTMLElement {
  return h(
    "div",
    { class: "stories" },
    ...demo.stories.map((story) => {
      const isRunning = demo.running?.story === story.id;
      const start = {
        type: "button",
        class: "button button-small button-primary",
        "aria-label": `Start ${story.title}`,
        onclick: () => void steer(() => client.startStory(story.id)),
      } as const;
      return h(
        "article",
        { class: `story${isRunning ? " is-running" : ""}` },
        h("h3", null, story.title),
        h("p", null, story.text),
        h(
          "footer",
          null,
          h("span", { class: "quiet" }, `${story.minutes} min`),
          h("span", { class: "grow" }),
          isRunning ? h("span", { class: "state state-active" }, "runs") : may && h("button", start, icon("scenarios"), "Start"),
        ),
      );
    }),
  );
}

export class RunningStory {
  readonly element = h("section", { class: "panel running", "aria-label": "The story that runs", hidden: true });
  readonly #title = h("h2");
  readonly #now = h("p", { class: "running-now", role: "status" });
  readonly #time = h("span", { class: "running-time" });
  readonly #bar = h("progress", { class: "running-bar", max: "1", "aria-label": "Progress of the story" });
  readonly #marks = h("div", { class: "running-marks", "aria-hidden": "true" });
  readonly #steps = h("ol", { class: "story-steps" });
  readonly #pause: HTMLButtonElement;
  readonly #speed: HTMLSelectElement;
  #isPaused = false;
  #drawn = "";

  constructor(may: boolean) {
    this.#pause = h("button", {
      type: "button",
      class: "button button-small",
      disabled: !may,
      onclick: () => void steer(() => client.pauseDemo(!this.#isPaused)),
    });
    this.#speed = h("select", {
      class: "select-small",
      "aria-label": "Speed",
      disabled: !may,
      onchange: () => void steer(() => client.demoSpeed(Number(this.#speed.value))),
    });
    const stop = h(
      "button",
      { type: "button", class: "button button-small", disabled: !may, onclick: () => void steer(() => client.stopStory()) },
      icon("stop"),
      "Stop",
    );
    this.element.append(
      h(
        "div",
        { class: "panel-head" },
        this.#title,
        h("span", { class: "grow" }),
        h("div", { class: "actions" }, this.#pause, this.#speed, stop),
      ),
      h(
        "div",
        { class: "running-body" },
        this.#now,
        h("div", { class: "running-line" }, h("div", { class: "running-track" }, this.#bar, this.#marks), this.#time),
        this.#steps,
      ),
    );
  }

  show(demo: Demo): void {
    const { running } = demo;
    this.element.hidden = running === null;
    if (running === null) return;
    const step = stepAt(running);
    setText(this.#title, demo.stories.find(({ id }) => id === running.story)?.title ?? running.story);
    setText(this.#now, running.steps[step]?.text ?? "");
    const state = running.paused
      ? "paused"
      : running.is_loading
        ? "waits for tenants being loaded"
        : running.at_s >= running.length_s
          ? "told; it goes on until it is stopped"
          : "";
    setText(
      this.#time,
      `${storyTime(Math.min(running.at_s, running.length_s))} of ${storyTime(running.length_s)}${state === "" ? "" : ` · ${state}`}`,
    );
    this.#bar.value = Math.min(1, running.at_s / running.length_s);
    this.#isPaused = running.paused;
    const key = JSON.stringify([running.story, step, running.paused, running.speed]);
    if (key === this.#drawn) return;
    this.#drawn = key;
    replace(this.#pause, icon(running.paused ? "scenarios" : "pause"), running.paused ? "Resume" : "Pause");
    const speeds = [...new Set([...SPEEDS, running.speed])].sort((a, b) => a - b);
    replace(
      this.#speed,
      ...speeds.map((factor) => h("option", { value: factor, selected: factor === running.speed }, `${factor} ×`)),
    );
    redraw(
      this.#steps,
      ...running.steps.map((one, i) =>
        h(
          "li",
          { class: i === step ? "is-now" : i < step ? "is-done" : "", "aria-current": i === step ? "step" : null },
          h("time", null, storyTime(one.at_s)),
          one.text,
        ),
      ),
    );
    const marks = running.steps.slice(1).map((one) => {
      const mark = h("i", { title: `${storyTime(one.at_s)} ${one.text}` });
      mark.style.setProperty("--at", String(one.at_s / running.length_s));
      return mark;
    });
    replace(this.#marks, ...marks);
  }
}
