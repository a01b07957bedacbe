// Progressive enhancements: copy buttons, relative times that stay current, keyboard shortcuts, and scrolling along
// with a conversation. The pages work without this script.
"use strict";

// The stylesheet has its own progress indicator (html[aria-busy]).
Turbo.config.drive.progressBarDelay = 2147483647;

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
  for (const time of root.querySelectorAll("time[datetime]")) {
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

// Scrolls rows of tabs that are wider than the window to the current tab.
function showTab() {
  for (const tab of document.querySelectorAll(":is(.tabs, .sidenav, .mainnav, .subnav) > [aria-current]")) {
    const row = tab.parentElement;
    const [inner, outer] = [tab.getBoundingClientRect(), row.getBoundingClientRect()];
    if (inner.right > outer.right || inner.left < outer.left) row.scrollLeft += inner.left - outer.left - 24;
  }
}
addEventListener("resize", showTab);

function enhance(root) {
  for (const button of root.querySelectorAll(".copy[hidden]")) button.hidden = false;
  updateTimes(root);
}

document.addEventListener("turbo:load", () => { enhance(document); showTab(); follow(true); });
document.addEventListener("turbo:render", () => enhance(document));
setInterval(() => updateTimes(document), 10000);

document.addEventListener("click", async (event) => {
  const copy = event.target.closest(".copy");
  if (copy) {
    const text = document.getElementById(copy.dataset.copy)?.textContent ?? "";
    await navigator.clipboard.writeText(text);
    copy.classList.add("copied");
    setTimeout(() => copy.classList.remove("copied"), 2000);
  }
  if (event.target.closest("#follow")) scrollTo({ top: document.body.scrollHeight, behavior: "smooth" });
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
  }
});

// Keeps the state of expanded elements when the server sends them again.
document.addEventListener("turbo:before-morph-attribute", (event) => {
  if (event.target.matches("details") && event.detail.attributeName === "open") event.preventDefault();
});

// Keeps the text in text areas until the form is submitted.
document.addEventListener("turbo:before-morph-element", (event) => {
  if (event.target.matches?.("textarea")) event.preventDefault();
});
document.addEventListener("turbo:submit-end", (event) => {
  // A button with the attribute formaction has submitted something other than the text.
  const other = event.detail.formSubmission.submitter?.hasAttribute("formaction");
  if (event.detail.success && !other && event.target.querySelector("[data-submit]")) event.target.reset();
});

// Browsers open at most six connections to a server. A hidden page therefore closes its stream after a while (in
// milliseconds), and reloads when it becomes visible again.
const HIDDEN_TIMEOUT = 15000;
let hiddenTimer;

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    hiddenTimer = setTimeout(() => {
      for (const source of document.querySelectorAll("turbo-stream-source")) {
        source.remove();
        document.documentElement.dataset.stale = "";
      }
    }, HIDDEN_TIMEOUT);
  } else if ("stale" in document.documentElement.dataset) {
    delete document.documentElement.dataset.stale;
    Turbo.session.refresh(location.href);
  }
});

// If the reader is at the end of a conversation, the page scrolls along with new content; otherwise it shows a button
// that leads to the end. The margin is in pixels.
const END_MARGIN = 160;
let atEnd = true;

function isAtEnd() {
  return innerHeight + scrollY >= document.body.scrollHeight - END_MARGIN;
}

function follow(first) {
  const thread = document.getElementById("thread");
  if (!thread) return;
  if (first && document.getElementById("job-head")?.dataset.state === "active" && !location.hash) {
    scrollTo({ top: document.body.scrollHeight });
  }
  atEnd = isAtEnd();
}

addEventListener("scroll", () => {
  atEnd = isAtEnd();
  const button = document.getElementById("follow");
  if (button && atEnd) button.hidden = true;
}, { passive: true });

document.addEventListener("turbo:before-stream-render", (event) => {
  const render = event.detail.render;
  event.detail.render = async (stream) => {
    const wasAtEnd = atEnd;
    await render(stream);
    const thread = document.getElementById("thread");
    if (!thread) return;
    enhance(document);
    const button = document.getElementById("follow");
    if (wasAtEnd) scrollTo({ top: document.body.scrollHeight });
    else if (button && ["append", "replace"].includes(stream.getAttribute("action"))) button.hidden = false;
  };
});
