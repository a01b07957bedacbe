// What scripts of several pages share, those of the documentation included: elements, storage, messages and copy buttons.
"use strict";

/** Creates an element. The children are elements and texts; texts are never parsed as HTML. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Uses `localStorage` or `sessionStorage`. Returns `null` if the browser does not permit it. */
function withStorage(name, use) {
  try {
    return use(window[name]);
  } catch {
    return null;
  }
}

/** Shows a message for a few seconds; with further elements, until it is dismissed. */
function showToast(text, ...more) {
  const dismiss = make("button", { type: "button", class: "button quiet small", "data-dismiss": "" }, "Dismiss");
  const message = make("div", {}, make("p", { role: "status" }, text), ...more);
  const data = { "data-toast": more.length ? "failed" : "", "data-turbo-temporary": "" };
  const toast = make("div", { class: "toast", ...data }, message, dismiss);
  document.getElementById("toasts").append(toast);
  // The pages of the documentation have no other script for toasts.
  if (typeof watchToasts === "function") watchToasts();
  else dismiss.addEventListener("click", () => toast.remove());
}

/** Copies a text with the command of earlier browsers. Returns whether the browser has copied it. */
function copyWithCommand(text) {
  const focused = document.activeElement;
  const field = make("textarea", { class: "unseen", readonly: "" });
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus({ preventScroll: true });
  return isCopied;
}

/** Copies the text of a button. Returns whether the browser has copied it. */
async function copyFor(button) {
  const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
  // Browsers have the clipboard only on pages with HTTPS, and on those of the same machine.
  const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false) || copyWithCommand(text);
  if (isCopied) {
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 2000);
  } else {
    const field = make("textarea", { class: "mono small", rows: "3", readonly: "", "aria-label": "Text to copy" });
    field.value = text;
    showToast("The browser refuses to copy. Press Ctrl+C or ⌘C:", field);
    field.select();
  }
  return isCopied;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest(".copy");
  if (button) copyFor(button);
});
