/** The administrator signs in; a viewer's role too. */
import { ApiError } from "../api/client";
import { h, replace } from "../dom";
import { client, session } from "../store";

export function loginPage(root: HTMLElement, why: string | null, signedIn: () => void): void {
  const user = h("input", { name: "user", autocomplete: "username", required: "", value: "admin", spellcheck: "false" });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: "" });
  const message = h("p", { class: "login-message", role: "alert" }, why);
  const submit = h("button", { type: "submit", class: "button button-primary login-submit" }, "Sign in");
  const form = h(
    "form",
    { class: "login-form" },
    h("label", { class: "field" }, h("span", { class: "field-label" }, "User"), user),
    h("label", { class: "field" }, h("span", { class: "field-label" }, "Password"), password),
    message,
    submit,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    message.textContent = "";
    try {
      session.set(await client.login(user.value, password.value));
      signedIn();
    } catch (error) {
      message.textContent =
        error instanceof ApiError
          ? error.status === 401
            ? "That user and password do not match."
            : error.status === 429
              ? "Too many attempts. Wait a moment, then try again."
              : error.message
          : String(error);
      password.select();
    } finally {
      submit.disabled = false;
    }
  });
  replace(
    root,
    h(
      "main",
      { class: "login", id: "main" },
      h(
        "div",
        { class: "login-card" },
        h("img", { src: "/mark.svg", alt: "", width: "40", height: "40" }),
        h("h1", null, "Rowhouse"),
        h("p", { class: "login-lead" }, "Who gets what on this server, and whether promises are kept."),
        form,
      ),
    ),
  );
  password.focus();
}
