// Progressive enhancements: times and clocks that stay current, toasts, and the count in the title. The
// pages work without this script. The keyboard is in keyboard.js, the conversation of a job in job.js.
"use strict";

// The stylesheet has its own progress indicator (html[aria-busy]).
if (window.Turbo) Turbo.config.drive.progressBarDelay = 2147483647;

// The server renders times relative to the request. This script keeps them current, and shows the reader's local time
// in the tooltip. The units are those of `words::distance` on the server.
function distance(seconds) {
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  const days = Math.floor(seconds / 86400);
  if (days < 100) return `${days} d`;
  return days < 730 ? `${Math.floor(days / 30)} mo` : `${Math.floor(days / 365)} y`;
}

function updateTimes(root) {
  for (const time of root.querySelectorAll("time[data-relative]")) {
    const at = new Date(time.dateTime);
    const seconds = (Date.now() - at) / 1000;
    // Times in the future are rounded up, as on the server.
    const unit = -seconds < 3600 ? 60 : -seconds < 86400 ? 3600 : 86400;
    const ahead = Math.max(-seconds, Math.floor((-seconds + unit / 100 + 1) / unit) * unit);
    const relative = distance(seconds < 0 ? ahead : seconds);
    const text = relative === "now" ? relative : seconds < 0 ? `in ${relative}` : `${relative} ago`;
    if (time.textContent !== text) time.textContent = text;
    time.title = at.toLocaleString();
  }
}

// The server renders days in UTC; this script converts them to the time zone of the reader: "20 Feb 2027". Days near
// the current time have the time of the day.
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function updateDays(root) {
  for (const time of root.querySelectorAll("time[data-day]")) {
    const at = new Date(time.dateTime);
    const two = (number) => String(number).padStart(2, "0");
    const day = `${at.getDate()} ${MONTHS[at.getMonth()]} ${at.getFullYear()}`;
    time.textContent = time.dataset.day === "time" ? `${day}, ${two(at.getHours())}:${two(at.getMinutes())}` : day;
    time.title = at.toLocaleString();
  }
}

// Clocks count from the time in `data-clock`, as 4:12 or 1:04:12. A page morphs back to the server's text; the clock then
// continues with its next second.
function updateClocks(root) {
  for (const clock of root.querySelectorAll("[data-clock]")) {
    const seconds = Math.max(Math.floor((Date.now() - new Date(clock.dataset.clock)) / 1000), 0);
    if (Number.isNaN(seconds)) continue;
    const two = (number) => String(number).padStart(2, "0");
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    const text = hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
    if (clock.textContent !== text) clock.textContent = text;
  }
  // The time since `data-elapsed`, from one second on.
  for (const time of root.querySelectorAll("[data-elapsed]")) {
    const seconds = Math.max((Date.now() - new Date(time.dataset.elapsed)) / 1000, 1);
    const text = seconds < 5 ? `${Math.floor(seconds)} s` : distance(seconds);
    if (time.textContent !== text) time.textContent = text;
  }
}

// Lists show the number of running jobs in the title of the tab: "(2) Jobs".
function updateTitle() {
  const running = Number(document.querySelector("meta[name=running]")?.content ?? 0);
  const plain = document.title.replace(/^\(\d+\) /, "");
  const title = running > 0 ? `(${running}) ${plain}` : plain;
  if (document.title !== title) document.title = title;
}

// A toast disappears after six seconds, unless the pointer or the focus is on it. A toast about a failure, or with a
// button, stays until it is dismissed. The parameters of a toast are removed from the address, so that it does not appear again when the
// page is reloaded.
const TOAST_MS = 6000;
let toastCount = 0;

function watchToasts() {
  for (const toast of document.querySelectorAll("[data-toast]:not([data-watched])")) {
    toast.dataset.watched = "";
    toast.id ||= `toast-${toastCount += 1}`;
    const leave = () => {
      if (toast.matches(":hover, :focus-within")) setTimeout(leave, TOAST_MS);
      else toast.remove();
    };
    // A button must stay long enough to be reached with the keyboard.
    if (toast.dataset.toast !== "failed" && !toast.querySelector("form")) setTimeout(leave, TOAST_MS);
    const dismiss = toast.querySelector("[data-dismiss]");
    if (dismiss) dismiss.hidden = false;
    const again = toast.querySelector("[data-again]");
    if (again && failed?.form.isConnected) {
      failures.set(toast, failed);
      again.hidden = false;
    }
    if (toast.dataset.toast === "failed") failed = undefined;
    const url = new URL(location.href);
    if (url.searchParams.has("done")) {
      for (const name of ["done", "count", "undo"]) url.searchParams.delete(name);
      history.replaceState(history.state, "", url);
    }
  }
}

// A form that fails leaves the page as it is: the server answers with a toast, whose button sends the form again.
const failures = new WeakMap();
const submitters = new WeakMap();
let failed;

document.addEventListener("turbo:submit-start", ({ detail }) => {
  const { formElement: form, submitter } = detail.formSubmission;
  submitters.set(form, submitter);
});
document.addEventListener("turbo:before-fetch-response", ({ target, detail }) => {
  if (!detail.fetchResponse.succeeded && target.matches?.("form[method=post]")) {
    failed = { form: target, submitter: submitters.get(target) };
  }
});
document.addEventListener("turbo:before-stream-render", (event) => {
  const { target } = event.target;
  if (target !== "toasts" && target !== "checked") return;
  const { render } = event.detail;
  event.detail.render = async (stream) => {
    await render(stream);
    enhance(document);
    // The findings of a test, which may be far above its button. The focus also lets screen readers read them.
    if (target === "checked") document.getElementById("checked")?.focus();
  };
});
document.addEventListener("turbo:fetch-request-error", ({ target }) => {
  if (!target.matches?.("form[method=post]")) return;
  failed = { form: target, submitter: submitters.get(target) };
  const text = make("p", { role: "alert" }, make("strong", {}, "The server cannot be reached."), " Your input is still here.");
  const again = make("button", { type: "button", class: "button small", "data-again": "", hidden: "" }, "Try again");
  const dismiss = make("button", { type: "button", class: "button quiet small", "data-dismiss": "" }, "Dismiss");
  const toast = make("div", { class: "toast danger", "data-toast": "failed", "data-turbo-temporary": "" }, text, again, dismiss);
  document.getElementById("toasts")?.append(toast);
  watchToasts();
});

function sendAgain(toast) {
  const { form, submitter } = failures.get(toast) ?? {};
  dismissToast(toast);
  if (form?.isConnected) form.requestSubmit(submitter?.isConnected ? submitter : undefined);
}

function dismissToast(toast) {
  const isFocused = toast.contains(document.activeElement);
  toast.remove();
  if (isFocused) document.getElementById("main")?.focus({ preventScroll: true });
}

// Scrolls rows of tabs that are wider than the window to the current tab.
function showTab() {
  for (const tab of document.querySelectorAll(":is(.tabs, .sidenav, .mainnav, .subnav, .switch) > [aria-current]")) {
    const row = tab.parentElement;
    const [inner, outer] = [tab.getBoundingClientRect(), row.getBoundingClientRect()];
    // The links to the jobs above and below cover the end of the row.
    const end = outer.right - (row.querySelector(".neighbors")?.offsetWidth ?? 0);
    if (inner.right > end || inner.left < outer.left) row.scrollLeft += inner.left - outer.left - 24;
  }
}
addEventListener("resize", showTab);

function enhance(root) {
  for (const button of root.querySelectorAll(".copy[hidden]")) button.hidden = false;
  updateTimes(root);
  updateDays(root);
  updateClocks(root);
  updateTitle();
  watchToasts();
}

document.addEventListener("turbo:load", () => { enhance(document); showTab(); });
document.addEventListener("turbo:render", () => {
  enhance(document);
  // A form that the server has refused. Its error may be far above its button.
  if (failed) document.querySelector("#main .flash[role=alert]")?.scrollIntoView({ block: "nearest" });
  failed = undefined;
});
// Pages with a form for another site do not load Turbo.
if (!window.Turbo) enhance(document);
setInterval(() => updateTimes(document), 10000);
setInterval(() => updateClocks(document), 1000);

document.addEventListener("click", (event) => {
  const dismiss = event.target.closest("[data-dismiss]");
  if (dismiss) {
    event.preventDefault();
    dismissToast(dismiss.closest("[data-toast]"));
  }
  const again = event.target.closest("[data-again]");
  if (again) sendAgain(again.closest("[data-toast]"));
  // A click outside closes open menus.
  for (const open of document.querySelectorAll("details.menu[open], details.confirm[open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("[data-submit]")) {
    event.preventDefault();
    event.target.form.requestSubmit();
  }
  if (event.key === "Escape") {
    for (const open of document.querySelectorAll("details.menu[open], details.confirm[open]")) {
      open.open = false;
      open.querySelector("summary").focus();
    }
    // Keys act again after the focus has left a text. The text stays.
    if (event.target.matches("textarea, [data-filter]")) event.target.blur();
  }
});

// Keeps the state of expanded elements when the server sends them again.
document.addEventListener("turbo:before-morph-attribute", (event) => {
  if (event.target.matches("details") && event.detail.attributeName === "open") event.preventDefault();
});

// Keeps the text in text areas until the form is submitted, and toasts until they disappear.
document.addEventListener("turbo:before-morph-element", (event) => {
  if (event.target.matches?.("textarea")) event.preventDefault();
  if (!event.detail.newElement && event.target.matches?.("[data-toast]")) event.preventDefault();
});
document.addEventListener("turbo:submit-end", (event) => {
  // The target is the whole document if an update has replaced the form in the meantime.
  const { formElement: form, submitter } = event.detail.formSubmission;
  // A button with the attribute formaction has submitted something other than the text.
  const other = submitter?.hasAttribute("formaction");
  if (event.detail.success) form.closest("[data-toast]")?.remove();
  const menu = form.closest("details.menu, details.confirm");
  if (event.detail.success && menu) menu.open = false;
  if (event.detail.success && !other && form.querySelector("[data-submit]")) form.reset();
});

// A browser connects a stream again after an interruption, but not after a request was refused, as by a server that is
// stopping, or by a proxy that reaches none. Then the page does, with growing pauses (in milliseconds).
const FIRST_PAUSE = 1000;
const MAX_PAUSE = 30000;
const watchedStreams = new WeakSet();
let pause = FIRST_PAUSE;

function watchStreams() {
  for (const source of document.querySelectorAll("turbo-stream-source")) {
    const stream = source.streamSource;
    if (!stream || watchedStreams.has(stream)) continue;
    watchedStreams.add(stream);
    const reopenIfRefused = () => {
      if (stream.readyState !== EventSource.CLOSED) return;
      setTimeout(() => reopen(source, stream), pause);
      pause = Math.min(2 * pause, MAX_PAUSE);
    };
    stream.addEventListener("open", () => { pause = FIRST_PAUSE; });
    stream.addEventListener("message", (event) => { source.dataset.lastEventId = event.lastEventId; });
    stream.addEventListener("error", reopenIfRefused);
    reopenIfRefused();
  }
}

function reopen(source, refused) {
  // The page may have replaced the stream meanwhile, or a hidden page may have closed it.
  if (!source.isConnected || source.streamSource !== refused) return;
  const address = new URL(source.src, location.href);
  if (source.dataset.lastEventId) address.searchParams.set("lastEventId", source.dataset.lastEventId);
  source.setAttribute("src", address);
  // The element opens its stream when it is inserted.
  const { parentNode: parent, nextSibling: next } = source;
  source.remove();
  parent.insertBefore(source, next);
  document.dispatchEvent(new Event("stream:resumed"));
}

for (const event of ["turbo:load", "turbo:morph", "turbo:render", "stream:resumed"]) {
  document.addEventListener(event, watchStreams);
}

// Browsers open at most six connections to a server. A hidden page therefore closes its stream after a while (in
// milliseconds), and reloads when it becomes visible again. A stream with `data-resumes` is opened again instead, because
// a reload would remove what the reader has entered.
const HIDDEN_TIMEOUT = 15000;
let hiddenTimer;
let closedSources = [];

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    hiddenTimer = setTimeout(() => {
      for (const source of document.querySelectorAll("turbo-stream-source")) {
        if ("resumes" in source.dataset) closedSources.push({ source, parent: source.parentElement });
        else document.documentElement.dataset.stale = "";
        source.remove();
      }
    }, HIDDEN_TIMEOUT);
    return;
  }
  const resumed = closedSources.filter(({ parent }) => parent.isConnected);
  for (const { source, parent } of resumed) parent.append(source);
  closedSources = [];
  // The server compares with the page as it was loaded, and not with what its stream has changed since.
  if (resumed.length > 0) document.dispatchEvent(new Event("stream:resumed"));
  if ("stale" in document.documentElement.dataset) {
    delete document.documentElement.dataset.stale;
    Turbo.session.refresh(location.href);
  }
});
