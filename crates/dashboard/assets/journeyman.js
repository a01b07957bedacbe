// What the pages do beyond what the server sends: copy buttons, times that go on, keys, and following a conversation.
// Nothing here is needed to use them.
"use strict";

// The page says that it is busy in its own way (html[aria-busy]).
Turbo.config.drive.progressBarDelay = 2147483647;

// Times are written by the server as distances from then; they go on here, with the reader's own clock in the tooltip.
function distance(seconds) {
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  const days = Math.floor(seconds / 86400);
  if (days < 100) return `${days} d`;
  return days < 730 ? `${Math.floor(days / 30)} mo` : `${Math.floor(days / 365)} y`;
}

function tick(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    const seconds = (Date.now() - at) / 1000;
    // What is to come is rounded up, as the server does.
    const unit = -seconds < 3600 ? 60 : -seconds < 86400 ? 3600 : 86400;
    const ahead = Math.max(-seconds, Math.floor((-seconds + unit / 100 + 1) / unit) * unit);
    const word = distance(seconds < 0 ? ahead : seconds);
    const text = word === "now" ? word : seconds < 0 ? `in ${word}` : `${word} ago`;
    if (time.textContent !== text) time.textContent = text;
    time.title = at.toLocaleString();
  }
}

// Rows of tabs that are wider than the window begin where one is.
function showTab() {
  for (const tab of document.querySelectorAll(":is(.tabs, .sidenav, .mainnav, .subnav) > [aria-current]")) {
    const row = tab.parentElement;
    const [inner, outer] = [tab.getBoundingClientRect(), row.getBoundingClientRect()];
    if (inner.right > outer.right || inner.left < outer.left) row.scrollLeft += inner.left - outer.left - 24;
  }
}
addEventListener("resize", showTab);

function begin(root) {
  for (const button of root.querySelectorAll(".copy[hidden]")) button.hidden = false;
  tick(root);
}

document.addEventListener("turbo:load", () => { begin(document); showTab(); follow(true); });
document.addEventListener("turbo:render", () => begin(document));
setInterval(() => tick(document), 10000);

document.addEventListener("click", async (event) => {
  const copy = event.target.closest(".copy");
  if (copy) {
    const text = document.getElementById(copy.dataset.copy)?.textContent ?? "";
    await navigator.clipboard.writeText(text);
    copy.classList.add("copied");
    setTimeout(() => copy.classList.remove("copied"), 2000);
  }
  if (event.target.closest("#follow")) scrollTo({ top: document.body.scrollHeight, behavior: "smooth" });
  // An open menu closes when something else is meant.
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

// What the reader has unfolded stays so when the element is sent anew.
document.addEventListener("turbo:before-morph-attribute", (event) => {
  if (event.target.matches("details") && event.detail.attributeName === "open") event.preventDefault();
});

// And what they are writing; until it is sent.
document.addEventListener("turbo:before-morph-element", (event) => {
  if (event.target.matches?.("textarea")) event.preventDefault();
});
document.addEventListener("turbo:submit-end", (event) => {
  // A button with an address of its own has sent something else.
  const other = event.detail.formSubmission.submitter?.hasAttribute("formaction");
  if (event.detail.success && !other && event.target.querySelector("[data-submit]")) event.target.reset();
});

// A browser opens six connections to a server: a page that nobody looks at lets go of its stream, and reads itself anew when
// somebody does.
const UNSEEN = 15000;
let unseen;

document.addEventListener("visibilitychange", () => {
  clearTimeout(unseen);
  if (document.hidden) {
    unseen = setTimeout(() => {
      for (const source of document.querySelectorAll("turbo-stream-source")) {
        source.remove();
        document.documentElement.dataset.stale = "";
      }
    }, UNSEEN);
  } else if ("stale" in document.documentElement.dataset) {
    delete document.documentElement.dataset.stale;
    Turbo.session.refresh(location.href);
  }
});

// Whoever is at the end of a conversation stays there while it goes on; whoever is not is offered the way.
const NEAR = 160;
let atEnd = true;

function isAtEnd() {
  return innerHeight + scrollY >= document.body.scrollHeight - NEAR;
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
    begin(document);
    const button = document.getElementById("follow");
    if (wasAtEnd) scrollTo({ top: document.body.scrollHeight });
    else if (button && ["append", "replace"].includes(stream.getAttribute("action"))) button.hidden = false;
  };
});
