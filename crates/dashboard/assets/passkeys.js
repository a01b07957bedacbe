// Passkeys: asks the browser for one, and sends its answer with the form. Everything else works without this script.
"use strict";

(() => {
  const isPossible = typeof window.PublicKeyCredential?.parseRequestOptionsFromJSON === "function";

  /** Shows the buttons in place of the text that says that passkeys are not possible. */
  function offer() {
    if (!isPossible) return;
    for (const button of document.querySelectorAll("button[data-passkey][hidden]")) button.hidden = false;
    for (const text of document.querySelectorAll("[data-passkey-missing]")) text.hidden = true;
  }

  /** Returns the answer of the browser as JSON. */
  async function answer(button) {
    const options = JSON.parse(button.dataset.options);
    const isNew = button.dataset.passkey === "create";
    const credential = isNew
      ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
      : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
    return JSON.stringify(credential.toJSON());
  }

  /** Returns what a person reads about an error of the browser. */
  function textOf(error) {
    switch (error.name) {
      case "InvalidStateError": return "This device or password manager has a passkey for your user already.";
      case "NotAllowedError": return "No passkey was used: it was canceled, it took too long, or there is none here.";
      case "SecurityError": return "The browser uses passkeys only at the public URL of this server. Open the page there.";
      default: return `The browser could not use a passkey: ${error.message}`;
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button[data-passkey]");
    if (!button || button.disabled) return;
    const { form } = button;
    const problem = form.querySelector("[data-passkey-error]");
    problem.hidden = true;
    button.disabled = true;
    try {
      form.querySelector("[data-passkey-answer]").value = await answer(button);
      // Without the check of the fields: a passkey replaces the password and the code.
      form.submit();
    } catch (error) {
      problem.textContent = textOf(error);
      problem.hidden = false;
    } finally {
      button.disabled = false;
    }
  });

  // The Enter key in a field of a form that only a passkey completes.
  document.addEventListener("submit", (event) => {
    const button = event.target.querySelector("button[data-passkey]");
    if (!button || button.hidden || event.submitter) return;
    event.preventDefault();
    button.click();
  });

  for (const name of ["turbo:load", "turbo:render"]) document.addEventListener(name, offer);
  offer();
})();
