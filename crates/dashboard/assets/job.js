// The page of a job: it applies live updates in small portions, follows the newest step, folds earlier ones, and keeps
// drafts. The page works without this script.
"use strict";

// A block, so that its names do not collide with those of other scripts.
{
  // The time that a portion of updates may take, in milliseconds. After it, the browser handles input and draws.
  const SLICE_MS = 12;
  // The distance from the end of the page, in pixels, within which the reader is at the end.
  const END_MARGIN = 96;
  // The height of a step, in pixels. A page stays at its top if it exceeds the window by at most this and
  // the height of the top bar.
  const STEP_HEIGHT = 28;

  // ---- Following

  let isFollowing = true;
  let isBusy = false;
  let newSteps = 0;
  const knownThreads = new WeakSet();

  function isAtEnd() {
    return innerHeight + scrollY >= document.documentElement.scrollHeight - END_MARGIN;
  }

  function scrollToEnd() {
    scrollTo({ top: document.documentElement.scrollHeight });
  }

  /** Scrolls to the newest step, unless the page is at its top and the window shows nearly all of it. */
  function scrollToNewest() {
    const root = document.documentElement;
    const bar = document.querySelector(".topbar")?.offsetHeight ?? 0;
    if (scrollY > 0 || root.scrollHeight - innerHeight > bar + STEP_HEIGHT) scrollToEnd();
  }

  /** Shows how many steps were added below while somebody reads above. */
  function showNewSteps() {
    const button = document.getElementById("new-steps");
    if (!button) return;
    button.hidden = isFollowing;
    const text = newSteps === 0 ? "Newest step" : newSteps === 1 ? "1 new step" : `${newSteps} new steps`;
    button.querySelector("span").textContent = text;
  }

  function follow() {
    isFollowing = true;
    newSteps = 0;
    applyFolds();
    showNewSteps();
  }

  addEventListener("scroll", () => {
    if (!document.getElementById("thread")) return;
    const wasFollowing = isFollowing;
    isFollowing = isAtEnd();
    if (isFollowing === wasFollowing) return;
    if (isFollowing) follow();
    else showNewSteps();
  }, { passive: true });

  // Details that somebody opens are read; the page then no longer moves.
  document.addEventListener("toggle", ({ target }) => {
    if (!target.closest("#thread") || isBusy) return;
    isFollowing = isAtEnd();
    showNewSteps();
  }, true);

  // ---- Live updates

  const queue = [];
  /** The folds that wait until nobody reads above: where they begin and end, by the ID of their element. */
  const folds = new Map();

  const nextFrame = () => new Promise((done) => { document.hidden ? setTimeout(done) : requestAnimationFrame(() => done()); });

  /** Returns the element that an update has added or replaced. */
  function changedBy(stream) {
    const target = document.getElementById(stream.target);
    return stream.action === "append" ? target?.lastElementChild : target;
  }

  /** Removes the element that an update adds again, because the connection was lost before all updates had arrived. */
  function removeEarlier(stream) {
    const id = stream.templateElement.content.firstElementChild?.id;
    if (id) document.getElementById(id)?.remove();
  }

  async function apply({ stream, render, done }) {
    try {
      if (stream.action === "append") removeEarlier(stream);
      await render(stream);
      const element = changedBy(stream);
      if (element && typeof enhance === "function") enhance(element);
      if (stream.action === "append" && !isFollowing) newSteps += 1;
    } finally {
      done();
    }
  }

  /** Applies the waiting updates, and lets the browser work after each portion. */
  async function drain() {
    while (queue.length > 0) {
      const end = performance.now() + SLICE_MS;
      while (queue.length > 0 && performance.now() < end) {
        try {
          await apply(queue.shift());
        } catch (error) {
          console.error(error);
        }
      }
      if (isFollowing) {
        applyFolds();
        scrollToNewest();
      }
      showNewSteps();
      await nextFrame();
    }
    isBusy = false;
  }

  document.addEventListener("turbo:before-stream-render", (event) => {
    if (!document.getElementById("thread") || event.target.target === "toasts") return;
    const { render } = event.detail;
    event.detail.render = (stream) => new Promise((done) => {
      queue.push({ stream, render, done });
      if (isBusy) return;
      isBusy = true;
      drain();
    });
  });

  /** Folds earlier steps: they move into an element that is closed. */
  Turbo.StreamActions.fold = function () {
    const [after, before] = ["after", "before"].map((name) => this.getAttribute(name));
    folds.set(this.target, { after, before, item: this.templateContent.firstElementChild });
  };

  function applyFolds() {
    for (const [id, { after, before, item }] of folds) foldSteps(id, after, before, item);
    folds.clear();
  }

  function foldSteps(id, after, before, item) {
    const thread = document.getElementById("thread");
    const end = document.getElementById(before);
    if (end?.parentElement !== thread) return;
    let fold = document.getElementById(id);
    if (fold) {
      fold.querySelector("summary").replaceChildren(...item.querySelector("summary").childNodes);
    } else {
      fold = item;
      const head = document.getElementById(after);
      if (head?.parentElement === thread) head.after(fold);
      else thread.prepend(fold);
    }
    const list = fold.querySelector("ol");
    while (fold.nextElementSibling && fold.nextElementSibling !== end) list.append(fold.nextElementSibling);
  }

  // ---- Steps that open elsewhere

  document.addEventListener("click", (event) => {
    if (event.target.closest("#new-steps")) {
      follow();
      scrollToEnd();
    }
    const opener = event.target.closest("[data-open]");
    const details = opener && document.getElementById(opener.dataset.open);
    if (!details) return;
    event.preventDefault();
    details.open = !details.open;
    if (details.open) details.scrollIntoView({ block: "nearest" });
  });

  // ---- Drafts: they stay until the server has taken the message.

  const draftKey = (form) => `draft of ${form.dataset.draft}`;

  function grow(field) {
    if (CSS.supports("field-sizing", "content")) return;
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  }

  document.addEventListener("input", ({ target }) => {
    const form = target.closest("form[data-draft]");
    if (!form || target.id !== "prompt") return;
    grow(target);
    withStorage("sessionStorage", (storage) => target.value ? storage.setItem(draftKey(form), target.value) : storage.removeItem(draftKey(form)));
  });

  document.addEventListener("turbo:submit-end", ({ target, detail }) => {
    // A button with the attribute formaction has submitted something other than the text.
    if (!target.matches("form[data-draft]") || !detail.success || detail.formSubmission.submitter?.hasAttribute("formaction")) return;
    withStorage("sessionStorage", (storage) => storage.removeItem(draftKey(target)));
  });

  function restoreDraft() {
    const form = document.querySelector("form[data-draft]");
    const field = form?.querySelector("#prompt");
    if (!field || field.value) return;
    field.value = withStorage("sessionStorage", (storage) => storage.getItem(draftKey(form))) ?? "";
    if (field.value) grow(field);
  }

  // ---- The title of the tab

  function updateJobTitle() {
    const head = document.getElementById("job-head");
    if (!head || !document.getElementById("thread")) return;
    const word = head.querySelector(".badge").textContent.trim();
    const clock = head.querySelector("[data-clock]")?.textContent ?? "";
    const state = `${word.charAt(0).toUpperCase()}${word.slice(1)} ${clock}`.trim();
    const title = `${state} · ${head.querySelector("h1").textContent} · Journeyman`;
    if (document.title !== title) document.title = title;
  }

  setInterval(updateJobTitle, 1000);

  // ---- The beginning of a visit

  function begin() {
    const thread = document.getElementById("thread");
    if (!thread || knownThreads.has(thread)) return;
    knownThreads.add(thread);
    folds.clear();
    newSteps = 0;
    restoreDraft();
    // A running job opens at its newest step, a finished one at its result.
    if (document.getElementById("job-head")?.dataset.state === "active" && !location.hash) scrollToNewest();
    isFollowing = isAtEnd();
    showNewSteps();
  }

  document.addEventListener("turbo:load", begin);
  if (document.readyState !== "loading") begin();
}
