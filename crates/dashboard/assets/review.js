// Enhancements of the pages of changes and of pull requests: viewed files, folding, more lines around a hunk, links to
// lines, keys, and comments: those that the browser collects, and those of others. The pages work without this script.
"use strict";

(() => {
  if (window.journeymanReview) return;
  window.journeymanReview = true;

  const CHUNK = 40;
  // The number of files whose hashes the browser remembers for a review.
  const MOST_VIEWED = 2000;

  const review = () => document.querySelector("[data-review]");
  const files = () => [...document.querySelectorAll(".diff > .file")];
  const twist = (file) => file.querySelector(".twist > input");
  const viewedBox = (file) => file.querySelector("[data-viewed]");

  // Storage can be disabled; the page then works without memory.
  function read(storage, key) {
    try {
      const value = JSON.parse(storage.getItem(key) ?? "[]");
      return Array.isArray(value) ? value : [];
    } catch { return []; }
  }
  function write(storage, key, value) {
    try {
      if (value.length === 0) storage.removeItem(key);
      else storage.setItem(key, JSON.stringify(value));
    } catch { /* Nothing is remembered. */ }
  }

  // ---- Viewed files. The browser remembers the hashes of their changes, so a file that changes is no longer viewed.
  const viewedKey = () => `journeyman:viewed:${review().dataset.review}`;

  function showViewed() {
    const all = files();
    const count = all.filter((file) => viewedBox(file)?.checked).length;
    const text = document.querySelector("[data-viewed-text]");
    const meter = document.querySelector("[data-viewed-meter]");
    if (text) text.textContent = `${count} of ${all.length} ${all.length === 1 ? "file" : "files"} viewed`;
    if (meter) meter.value = count;
    for (const file of all) {
      const isViewed = viewedBox(file)?.checked;
      file.classList.toggle("viewed", isViewed);
      document.querySelector(`.tree a[data-file="${file.id}"]`)?.classList.toggle("seen", isViewed);
    }
    const fold = document.querySelector("[data-fold]");
    if (fold) fold.textContent = all.some((file) => twist(file).checked) ? "Fold all" : "Unfold all";
  }

  function setViewed(file, isViewed) {
    const known = read(localStorage, viewedKey()).filter((hash) => hash !== file.dataset.hash);
    if (isViewed) known.push(file.dataset.hash);
    write(localStorage, viewedKey(), known.slice(-MOST_VIEWED));
    twist(file).checked = !isViewed;
    showViewed();
  }

  // ---- Lines.
  // The line in the URL is highlighted by the stylesheet; its file may be folded.
  function showTarget() {
    const match = /^#(f\d+)(?:-[LR]\d+)?$/.exec(location.hash);
    const file = match && document.getElementById(match[1]);
    if (!file?.matches(".file")) return;
    if (!twist(file).checked) {
      twist(file).checked = true;
      showViewed();
    }
    document.getElementById(location.hash.slice(1))?.scrollIntoView({ block: location.hash.includes("-") ? "center" : "start" });
  }

  async function expand(button) {
    const file = button.closest(".file");
    const row = button.closest("tr");
    const isAbove = button.dataset.expand === "above";
    const [first, last] = [Number(button.dataset.from), Number(button.dataset.to)];
    const from = isAbove ? Math.max(first, last - CHUNK + 1) : first;
    const to = isAbove ? last : first + CHUNK - 1;
    button.disabled = true;
    const answer = await fetch(`${file.dataset.more}&from=${from}&to=${to}&shift=${button.dataset.shift}`).catch(() => null);
    button.disabled = false;
    if (!answer?.ok) {
      const text = answer?.status === 409 ? "The changes are newer than this page. Reload it." : "The lines are not available. Try again, or reload the page.";
      button.textContent = text;
      return;
    }
    // The rows are inert until they are in the page, and the server has escaped their text.
    const parsed = new DOMParser().parseFromString(`<table><tbody>${await answer.text()}</tbody></table>`, "text/html");
    const lines = [...parsed.querySelectorAll("tr")];
    if (isAbove) {
      row.after(...lines);
      if (from === first) row.remove();
      else {
        button.dataset.to = from - 1;
        const rest = Math.min(CHUNK, from - first);
        button.textContent = `Show ${rest} ${rest === 1 ? "line" : "lines"} above`;
      }
    } else {
      row.before(...lines);
      if (lines.length < CHUNK) row.remove();
      else button.dataset.from = to + 1;
    }
  }

  // ---- Comments. Where the server does not collect them, the browser holds them until they are sent together.
  const heldKey = () => `journeyman:comments:${review().dataset.review}:${form()?.elements.part.value ?? ""}`;
  const pattern = () => document.getElementById("line-form");
  const form = () => pattern()?.content.querySelector("form");

  function lineOf(number) {
    const match = /^(f\d+)-([LR])(\d+)$/.exec(number.closest("td").id);
    const file = match && document.getElementById(match[1]);
    return file && { file, path: decodeURIComponent(file.dataset.path), side: match[2] === "L" ? "old" : "new", line: match[3], id: match[0] };
  }

  function rowBelow(cell) {
    const row = document.createElement("tr");
    row.className = "talk";
    const inner = row.insertCell();
    inner.colSpan = cell.closest("table").classList.contains("split") ? 6 : 4;
    let last = cell.closest("tr");
    while (last.nextElementSibling?.matches(".talk")) last = last.nextElementSibling;
    last.after(row);
    return inner;
  }

  function closeForm() {
    const open = document.getElementById("remark");
    if (!open) return;
    const cell = open.parentElement;
    for (const row of document.querySelectorAll("tr.picked")) row.classList.remove("picked");
    open.remove();
    if (cell.children.length === 0) cell.closest("tr").remove();
  }

  function openForm(line, text = "") {
    // A text that was begun stays until it is added or discarded.
    const begun = document.querySelector("#remark textarea");
    if (begun?.value.trim()) return begun.focus();
    closeForm();
    const note = form().cloneNode(true);
    for (const name of ["path", "side", "line"]) note.elements[name].value = line[name];
    const label = `${line.side === "old" ? "removed " : ""}line ${line.line}`;
    for (const word of note.querySelectorAll("[data-line]")) word.textContent = label;
    enhance(note);
    const field = note.elements.body;
    field.value = text;
    const cell = document.getElementById(line.id);
    rowBelow(cell).append(note);
    cell.closest("tr").classList.add("picked");
    history.replaceState(history.state, "", `#${line.id}`);
    field.focus({ preventScroll: false });
  }

  const cellOf = (held) => {
    const file = files().find((one) => decodeURIComponent(one.dataset.path) === held.path);
    return file && document.getElementById(`${file.id}-${held.side === "old" ? "L" : "R"}${held.line}`);
  };

  function showHeld() {
    const sender = document.querySelector("[data-pending]");
    if (!sender || !pattern()) return;
    for (const row of document.querySelectorAll("tr.talk:has(> td > .note.held)")) row.remove();
    for (const input of sender.querySelectorAll("[name=comment], [name=part], [name=view], [name=w]")) input.remove();
    const held = read(sessionStorage, heldKey());
    const field = (name, value) => {
      const input = document.createElement("input");
      [input.type, input.name, input.value] = ["hidden", name, value];
      sender.append(input);
    };
    for (const one of held) field("comment", JSON.stringify(one));
    for (const name of ["part", "view", "w"]) field(name, form().elements[name].value);
    sender.hidden = held.length === 0;
    sender.querySelector("[data-pending-count]").textContent = held.length === 1 ? "1 comment" : `${held.length} comments`;
    held.forEach((one, index) => {
      const cell = cellOf(one);
      if (!cell) return;
      const note = document.createElement("div");
      note.className = "note held";
      const text = document.createElement("p");
      text.className = "note-text";
      text.textContent = one.body;
      const foot = document.createElement("div");
      foot.className = "note-foot";
      const state = document.createElement("span");
      state.className = "badge pending push-start";
      state.textContent = "not sent";
      const button = (label, run) => {
        const made = document.createElement("button");
        [made.type, made.className, made.textContent] = ["button", "button quiet small", label];
        made.addEventListener("click", run);
        return made;
      };
      const without = () => write(sessionStorage, heldKey(), read(sessionStorage, heldKey()).filter((_, other) => other !== index));
      foot.append(state, button("Edit", () => { without(); showHeld(); openForm({ ...one, id: cell.id }, one.body); }), button("Remove", () => { without(); showHeld(); }));
      note.append(text, foot);
      rowBelow(cell).append(note);
    });
  }

  function hold(note) {
    if (!note.reportValidity()) return;
    const { path, side, line, body } = note.elements;
    const held = read(sessionStorage, heldKey());
    held.push({ path: path.value, side: side.value, line: Number(line.value), body: body.value });
    write(sessionStorage, heldKey(), held);
    closeForm();
    showHeld();
  }

  // ---- Comments that are added, resolved or opened again elsewhere. Only these are inserted or replaced: what the reader
  // writes or has unfolded stays.
  const RETRY_MS = 3000;
  let isFetching = false;
  let isStale = false;

  function replaceThread(thread, next) {
    const hasFocus = thread.contains(document.activeElement);
    const isOnReply = document.activeElement?.matches("[data-reply]");
    const fold = next.querySelector(".resolved");
    if (fold) fold.open = Boolean(thread.querySelector(".resolved[open]"));
    thread.replaceWith(next);
    window.enhance?.(next);
    if (!hasFocus) return;
    const control = (isOnReply && next.querySelector("[data-reply]")) || next.querySelector(".resolved > summary, form button");
    control?.focus({ preventScroll: true });
  }

  // Updates the list of comments in the conversation. Drafts become comments, or parts of a review.
  function updateList(parsed) {
    const entryOf = (item) => item.querySelector(".entry")?.id;
    const list = document.getElementById("comments");
    const found = [...parsed.querySelectorAll("#comments > li")];
    if (!list) return;
    const kept = new Set(found.map(entryOf));
    const known = new Map([...list.children].map((item) => [entryOf(item), item]));
    for (const [id, item] of known) if (!kept.has(id)) item.remove();
    let last = null;
    for (const item of found) {
      let shown = known.get(entryOf(item));
      if (shown?.querySelector(":scope > .entry.draft") && !item.querySelector(":scope > .entry.draft")) {
        shown.remove();
        shown = null;
      }
      if (!shown) {
        if (last) last.after(item);
        else list.prepend(item);
        window.enhance?.(item);
      }
      last = shown ?? item;
    }
  }

  // Inserts new threads below their lines, if the page shows the same line with the same number.
  function insertThreads(parsed) {
    for (const thread of parsed.querySelectorAll(".diff [data-thread]")) {
      if (document.getElementById(thread.id)) continue;
      const found = thread.closest("tr");
      let line = found.previousElementSibling;
      while (line.matches(".talk")) line = line.previousElementSibling;
      const row = document.getElementById(line.querySelector("td[id]").id)?.closest("tr");
      const isSame = row?.textContent === line.textContent && row?.closest(".file").dataset.path === line.closest(".file").dataset.path;
      if (!isSame) continue;
      let below = row.nextElementSibling;
      if (!below?.matches(".talk:has(> td > [data-thread])")) {
        below = found.cloneNode(false);
        below.append(found.cells[0].cloneNode(false));
        row.after(below);
      }
      below.cells[0].append(thread);
      window.enhance?.(thread);
    }
  }

  // Replaces the other parts of the page that depend on comments.
  function updateDependents(parsed) {
    for (const part of document.querySelectorAll("[data-of-comments]")) {
      const next = parsed.getElementById(part.id);
      if (!next || next.outerHTML === part.outerHTML || part.querySelector("[aria-busy]")) continue;
      const hasFocus = part.contains(document.activeElement);
      part.replaceWith(next);
      if (hasFocus) (next.matches("a") ? next : next.querySelector("button"))?.focus({ preventScroll: true });
    }
  }

  // Removes drafts that were submitted or removed in another window, and threads that have another first comment now.
  function removeOld(parsed) {
    const isOld = (entry) => entry.matches(".draft") && !parsed.getElementById(entry.id)?.matches(".draft");
    const isMoved = (thread) => !parsed.getElementById(thread.id) && [...thread.querySelectorAll(".entry")].some((entry) => parsed.getElementById(entry.id));
    const old = [
      ...[...document.querySelectorAll(".diff .entry.draft")].filter(isOld),
      ...[...document.querySelectorAll(".diff [data-thread]")].filter(isMoved),
    ];
    for (const element of old) {
      const cell = element.parentElement;
      element.remove();
      if (cell.children.length === 0) cell.closest("tr").remove();
    }
  }

  // The number of pages, and updates of pages, that Turbo has shown.
  let renders = 0;
  document.addEventListener("turbo:render", () => { renders += 1; });

  // Returns false if a comment may still have an old state.
  async function updateOnce() {
    // Another page, or a hidden one, which reads the comments when it resumes.
    if (!source()) return true;
    const before = renders;
    const text = await fetch(location.href).then((answer) => answer.ok ? answer.text() : null).catch(() => null);
    if (text === null) return false;
    if (renders !== before) {
      // The answer may be older than the page.
      isStale = true;
      return true;
    }
    const parsed = new DOMParser().parseFromString(text, "text/html");
    // A refused form shows the conversation at the URL of the changes; after the end of the session, the answer is another page.
    const isConversation = (page) => Boolean(page.getElementById("comments"));
    if (!parsed.querySelector("turbo-stream-source[data-comments]") || isConversation(parsed) !== isConversation(document)) return true;
    removeOld(parsed);
    let isComplete = true;
    for (const thread of document.querySelectorAll("[data-thread]")) {
      const next = parsed.getElementById(thread.id);
      if (!next || next.dataset.thread === thread.dataset.thread) continue;
      // The answer to a form shows the whole page again, unless the form is refused.
      if (thread.querySelector("form[aria-busy]")) isComplete = false;
      else replaceThread(thread, document.importNode(next, true));
    }
    updateList(parsed);
    insertThreads(parsed);
    updateDependents(parsed);
    return isComplete;
  }

  async function updateComments() {
    isStale = true;
    if (isFetching) return;
    isFetching = true;
    try {
      while (isStale) {
        isStale = false;
        if (await updateOnce()) continue;
        setTimeout(updateComments, RETRY_MS);
        break;
      }
    } finally {
      isFetching = false;
    }
  }

  // After an interruption, the server compares with the page as it was loaded, so the comments are read again.
  const watched = new WeakSet();
  const source = () => document.querySelector("turbo-stream-source[data-comments]");
  function watchStream() {
    const stream = source()?.streamSource;
    if (!stream || watched.has(stream)) return;
    watched.add(stream);
    let wasOpen = stream.readyState === EventSource.OPEN;
    stream.addEventListener("open", () => {
      if (wasOpen) updateComments();
      wasOpen = true;
    });
  }

  document.addEventListener("stream:resumed", () => {
    watchStream();
    if (source()) updateComments();
  });
  for (const event of ["turbo:load", "turbo:morph", "turbo:render"]) document.addEventListener(event, watchStream);
  document.addEventListener("turbo:before-stream-render", (event) => {
    // The action of the version before, which may run beside this one, is "threads".
    if (["comments", "threads"].includes(event.target.action)) event.detail.render = updateComments;
  });

  // ---- Files.
  function currentFile() {
    const edge = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
    const all = files();
    const focused = document.activeElement?.closest?.(".diff > .file");
    const box = focused?.getBoundingClientRect();
    if (box && box.bottom > edge && box.top < innerHeight) return all.indexOf(focused);
    return all.findLastIndex((file) => file.getBoundingClientRect().top <= edge + 8);
  }

  function goTo(index) {
    const file = files()[index];
    if (!file) return;
    file.scrollIntoView({ block: "start" });
    twist(file).focus({ preventScroll: true });
    markCurrent();
  }

  function markCurrent() {
    const file = files()[Math.max(0, currentFile())];
    for (const link of document.querySelectorAll(".tree a[data-file]")) {
      if (link.dataset.file === file?.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  function filterFiles(text) {
    const wanted = text.trim().toLowerCase();
    for (const link of document.querySelectorAll(".tree a[data-file]")) {
      const path = decodeURIComponent(document.getElementById(link.dataset.file).dataset.path).toLowerCase();
      link.parentElement.hidden = !path.includes(wanted);
    }
    // A folder without matching files is hidden, from the innermost outwards.
    for (const folder of [...document.querySelectorAll(".tree li:has(> details)")].reverse()) {
      folder.hidden = !folder.querySelector("a[data-file]:not([hidden] *)");
    }
  }

  function enhance(root) {
    for (const element of root.querySelectorAll("[data-enhance][hidden]")) element.hidden = false;
  }

  function begin() {
    if (!review()) return;
    enhance(document);
    const known = new Set(read(localStorage, viewedKey()));
    for (const file of files()) {
      const box = viewedBox(file);
      box.checked = known.has(file.dataset.hash);
      // A file with a comment that is being written stays open.
      if (box.checked && !file.querySelector("#remark")) twist(file).checked = false;
    }
    showHeld();
    showViewed();
    showTarget();
    markCurrent();
  }

  // The comments are held until the server has taken them.
  document.addEventListener("turbo:submit-end", (event) => {
    const { formElement } = event.detail.formSubmission;
    if (event.detail.success && formElement.matches("[data-pending]")) write(sessionStorage, heldKey(), []);
  });

  document.addEventListener("turbo:load", begin);
  document.addEventListener("turbo:render", () => { if (review()) { enhance(document); showHeld(); showViewed(); } });
  if (document.readyState !== "loading") begin();
  addEventListener("hashchange", showTarget);
  let isMarking = false;
  addEventListener("scroll", () => {
    if (isMarking || !review()) return;
    isMarking = true;
    requestAnimationFrame(() => {
      isMarking = false;
      if (review()) markCurrent();
    });
  }, { passive: true });

  // A page that is updated keeps what the reader has chosen in a form.
  document.addEventListener("turbo:before-morph-element", (event) => {
    if (event.target.matches?.("form[data-keep] input[type=checkbox]")) event.preventDefault();
  });

  document.addEventListener("change", (event) => {
    const file = event.target.closest?.(".file");
    if (file && event.target.matches("[data-viewed]")) setViewed(file, event.target.checked);
    else if (file && event.target.matches(".twist > input")) showViewed();
  });
  document.addEventListener("input", (event) => {
    if (event.target.matches?.("[data-filter-files]")) filterFiles(event.target.value);
  });

  document.addEventListener("click", (event) => {
    if (!review() || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const target = event.target;
    const menu = document.querySelector(".files-menu[open]");
    if (menu && (!menu.contains(target) || target.closest("a"))) menu.open = false;
    const more = target.closest("[data-expand]");
    if (more) return void expand(more);
    if (target.closest("[data-fold]")) {
      const isFolding = files().some((file) => twist(file).checked);
      for (const file of files()) twist(file).checked = !isFolding;
      return showViewed();
    }
    if (target.closest("[data-hold]")) return hold(target.closest("form"));
    if (target.closest("[data-discard]")) {
      event.preventDefault();
      return closeForm();
    }
    const reply = target.closest("[data-reply]");
    const number = reply ? document.getElementById(reply.hash.slice(1))?.querySelector(":scope > a") : target.closest(".lines .no > a");
    if (number && form()) {
      const line = lineOf(number);
      if (!line) return;
      event.preventDefault();
      openForm(line);
    }
  });

  // Keys. Letters act outside of fields, and not if they are switched off.
  document.addEventListener("keydown", (event) => {
    if (!review() || event.defaultPrevented) return;
    const target = event.target;
    if (target.matches?.("[data-hold-submit]") && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      return hold(target.form);
    }
    if (target.matches?.("#remark textarea") && event.key === "Escape" && !target.value.trim()) return closeForm();
    if (event.ctrlKey || event.metaKey || event.altKey || document.body.dataset.letters === "off") return;
    if (target.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    const at = currentFile();
    switch (event.key) {
      case "j": case "n": goTo(at + 1); break;
      case "k": case "p": goTo(Math.max(0, at - 1)); break;
      case "v": {
        const box = viewedBox(files()[Math.max(0, at)]);
        box?.click();
        break;
      }
      case "t": {
        const field = document.querySelector("[data-filter-files]");
        if (!field?.checkVisibility()) document.querySelector(".files-menu > summary")?.click();
        else field.focus();
        break;
      }
      case "i": {
        const number = document.activeElement?.closest?.(".lines .no > a") ?? document.querySelector(".lines .no:target > a");
        if (!number || !form()) return;
        const line = lineOf(number);
        if (line) openForm(line);
        break;
      }
      default: return;
    }
    event.preventDefault();
  });
})();
