// The keyboard: the palette (Ctrl K or ⌘K), the list of keys, and letters that act. Everything that a key does has a
// button or a link, and the pages work without this script. It also runs on the pages of the documentation.
"use strict";

// A sequence such as `g h` ends after this time, in milliseconds.
const SEQUENCE_MS = 1200;
// The time after the last letter in the palette until the server is asked, in milliseconds.
const SEARCH_MS = 150;

const SECTIONS = { h: "/", j: "jobs", p: "pulls", s: "/system" };

function visit(href) {
  // Pages of other sites and of the documentation do not use Turbo.
  if (window.Turbo && href.startsWith("/") && !href.startsWith("/docs")) Turbo.visit(href);
  else location.assign(href);
}

/** Returns the path of the current project, such as `/projects/shop`; `undefined` outside of projects. */
function projectPath() {
  const path = location.pathname.match(/^\/projects\/[^/]+/)?.[0];
  return path === "/projects/new" ? undefined : path;
}

/** Returns true if the viewer's role permits changes; then the menu has the link to the API keys. */
function canWrite() {
  return Boolean(document.querySelector("details.account a[href='/keys']"));
}

function isTyping(target) {
  return target.isContentEditable || target.matches?.("input:not([type=checkbox], [type=radio], [type=button], [type=submit]), textarea, select");
}

// ---- Dialogs

/** Opens a modal dialog, which the browser keeps the focus in, and removes it when it closes. */
function openDialog(dialog) {
  document.querySelector("dialog.dialog")?.close();
  dialog.addEventListener("close", () => dialog.remove(), { once: true });
  // A click on the backdrop has the dialog itself as its target.
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("turbo:before-cache", () => {
  const dialog = document.querySelector("dialog.dialog");
  dialog?.close();
  dialog?.remove();
});

/** Shows the list of keys. The page of the list has it, so that it needs no script. */
async function openHelp() {
  const answer = await fetch("/keyboard", { headers: { accept: "text/html" } });
  const list = answer.ok && !answer.redirected
    ? new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("keys")
    : null;
  if (!list) return visit("/keyboard");
  const close = make("button", { type: "button", class: "button small" }, "Close");
  close.addEventListener("click", () => close.closest("dialog").close());
  openDialog(make(
    "dialog", { class: "dialog", "aria-labelledby": "keys-title" },
    make("div", { class: "dialog-head" }, make("h2", { id: "keys-title" }, "Keyboard"), close),
    make("div", { class: "dialog-body", tabindex: "0", role: "region", "aria-label": "List of keys" }, document.adoptNode(list)),
  ));
}

// ---- The palette

/** Returns the element of an action of the page. An update may have replaced it since the palette was opened. */
function actionElement(title) {
  return document.querySelector(`[data-action="${CSS.escape(title)}"]:not(:disabled)`);
}

/** Carries out an action of the page: opens a disclosure, or presses a button or a link. */
async function runAction(title) {
  const element = actionElement(title);
  if (!element) return;
  if (element.matches("summary")) {
    for (let details = element.closest("details"); details; details = details.parentElement.closest("details")) details.open = true;
    element.focus();
    return;
  }
  if (!element.matches(".copy")) element.click();
  // The button itself may be in a closed menu.
  else if (await copyFor(element)) showToast("Copied.");
}

/**
 * Returns what the palette offers without a search: the actions of the page, which its elements name with `data-action`,
 * and the links of its header.
 */
function actions() {
  const titles = [...document.querySelectorAll("[data-action]:not(:disabled)")].map((element) => element.dataset.action);
  const found = [...new Set(titles)].map((title) => ({ group: "On this page", title, act: () => runAction(title) }));
  const project = projectPath();
  if (project) {
    const name = decodeURIComponent(project.split("/").pop());
    if (canWrite()) found.push({ title: `New job in ${name}`, href: `${project}/jobs/new` });
    found.push({ title: `Jobs of ${name}`, href: `${project}/jobs` });
  } else if (canWrite()) {
    found.push({ title: "New job…", act: () => openPalette("New job in ") });
  }
  for (const link of document.querySelectorAll(".mainnav > a, details.account a:not(.narrow-only > a)")) {
    found.push({ title: link.textContent.trim(), href: link.getAttribute("href") });
  }
  for (const button of document.querySelectorAll("details.account [data-theme-switch] button")) {
    found.push({ title: `Theme: ${button.textContent.trim()}`, act: () => button.click() });
  }
  const out = document.querySelector("details.account form[action='/logout'] button");
  if (out) found.push({ title: "Sign out", act: () => out.click() });
  return found.map((one) => ({ group: "Go to", detail: "", ...one }));
}

/** Opens the palette, with a text that is searched for at once. */
function openPalette(text = "") {
  const field = make("input", {
    type: "search", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-autocomplete": "list",
    "aria-label": "Search or jump to", placeholder: "Search or jump to…", autocomplete: "off", spellcheck: "false",
  });
  const list = make("div", { id: "palette-list", class: "palette-list", role: "listbox", "aria-label": "Results" });
  const count = make("p", { class: "unseen", role: "status" });
  const close = make("button", { type: "button", class: "button quiet small" }, "Close");
  const keys = (key, text) => make("span", {}, make("kbd", {}, key), ` ${text}`);
  const dialog = make(
    "dialog", { class: "dialog", "aria-label": "Search or jump to" },
    make("div", { class: "palette-field" }, field, close), list, count,
    make("div", { class: "palette-foot", "aria-hidden": "true" }, keys("↑ ↓", "move"), keys("Enter", "open"), keys("Esc", "close")),
  );
  const all = actions();
  const groups = new Map();
  let options = [];
  let chosen = 0;
  let timer;
  let asked = 0;
  let isSearching = false;
  let isEntered = false;

  const choose = (index) => {
    chosen = options.length ? (index + options.length) % options.length : 0;
    for (const [at, option] of options.entries()) option.element.setAttribute("aria-selected", String(at === chosen));
    const element = options[chosen]?.element;
    if (element) field.setAttribute("aria-activedescendant", element.id);
    else field.removeAttribute("aria-activedescendant");
    element?.scrollIntoView({ block: "nearest" });
  };
  const act = (option) => {
    dialog.close();
    if (option.act) option.act();
    else visit(option.href);
  };
  // Adds options below those that are there, which stay: an element that is replaced during a click gets no click.
  const add = (found) => {
    list.querySelector(".palette-empty")?.remove();
    for (const one of found) {
      const parts = [make("span", { class: "cut" }, one.title)];
      if (one.detail) parts.push(make("span", { class: "muted" }, one.detail));
      const element = make("div", { role: "option", id: `palette-${options.length}`, "aria-selected": "false" }, ...parts);
      element.addEventListener("click", (event) => {
        // Another listener closes the menus that a click is outside of, also the one that the action opens.
        event.stopPropagation();
        act(one);
      });
      if (!groups.has(one.group)) {
        groups.set(one.group, make("div", { role: "group", "aria-label": one.group }, make("span", { "aria-hidden": "true" }, one.group)));
        list.append(groups.get(one.group));
      }
      groups.get(one.group).append(element);
      options.push({ ...one, element });
    }
    count.textContent = options.length === 1 ? "1 result" : `${options.length} results`;
    if (!options.length) showEmpty(isSearching ? "Searching…" : "No results");
    choose(chosen);
  };
  // The status for screen readers has the same text.
  const showEmpty = (text) => {
    count.textContent = text;
    list.replaceChildren(make("p", { class: "palette-empty", "aria-hidden": "true" }, text));
  };
  const find = async (text) => {
    try {
      const answer = await fetch(`/search/results?q=${encodeURIComponent(text)}`, { headers: { accept: "application/json" } });
      if (answer.ok && !answer.redirected) return await answer.json();
    } catch {
      // Without the server, the actions of the page remain.
    }
    return [];
  };
  // The actions whose titles have the text are shown at once, so that Enter never carries out another one. What the
  // server finds follows them; without a text, these are the newest jobs.
  const search = (text) => {
    const number = (asked += 1);
    const words = text.toLowerCase();
    const own = all.filter((one) => one.title.toLowerCase().includes(words));
    clearTimeout(timer);
    [isSearching, isEntered] = [text !== "", false];
    [options, chosen] = [[], 0];
    groups.clear();
    list.replaceChildren();
    add(own);
    timer = setTimeout(async () => {
      const found = (await find(text)).filter((one) => !own.some((known) => known.href === one.href));
      // An older answer must not replace a newer one, or act after the palette was closed.
      if (number !== asked) return;
      isSearching = false;
      add(found);
      if (isEntered && options[chosen]) act(options[chosen]);
    }, text ? SEARCH_MS : 0);
  };

  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => { asked += 1; });
  field.addEventListener("input", () => search(field.value.trim()));
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Enter" && options[chosen]) act(options[chosen]);
    // The first result is opened as soon as it is found.
    else if (event.key === "Enter" && isSearching) {
      isEntered = true;
      showEmpty("Searching… The first result will be opened.");
    }
    // A search field would first be emptied.
    else if (event.key === "Escape") dialog.close();
    else return;
    event.preventDefault();
  });
  openDialog(dialog);
  field.focus();
  field.value = text;
  search(text.trim());
}

// ---- Letters

let sequence = "";
let sequenceTimer;

function press(element) {
  element.focus();
  element.click();
}

/** Moves the focus to the row after or before the current one of the first list on the page. */
function move(step) {
  const rows = [...document.querySelectorAll("[data-list] .row")];
  const links = rows.map((row) => row.querySelector("a.row-title, .row-link, a")).filter((link) => link?.checkVisibility());
  if (!links.length) return false;
  const at = links.findIndex((link) => link === document.activeElement || link.closest(".row").contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + step, 0), links.length - 1);
  links[next].focus();
  return true;
}

/** Goes to the section of a letter after `g`. */
function go(letter) {
  const section = SECTIONS[letter];
  if (!section) return false;
  const project = projectPath();
  if (section.startsWith("/")) visit(section);
  else visit(project ? `${project}/${section}` : "/projects");
  return true;
}

/** Does what a key means; returns false if it means nothing here. */
function letter(key) {
  if (sequence === "g") {
    sequence = "";
    return go(key);
  }
  if (key === "g") {
    sequence = "g";
    clearTimeout(sequenceTimer);
    sequenceTimer = setTimeout(() => { sequence = ""; }, SEQUENCE_MS);
    return true;
  }
  if (key === "?") {
    openHelp();
    return true;
  }
  if (key === "/") {
    const filter = document.querySelector("[data-filter]");
    filter?.focus();
    filter?.select?.();
    return Boolean(filter);
  }
  // A page names its own keys, which apply to the row with the focus, or else to the page.
  const own = `[data-key="${CSS.escape(key)}"]`;
  const row = document.activeElement?.closest?.(".row");
  const element = row?.querySelector(own) ?? [...document.querySelectorAll(own)].find((one) => one.checkVisibility() && !one.closest("[data-list] .row"));
  if (element) {
    press(element);
    return true;
  }
  if (key === "j" || key === "k") return move(key === "j" ? 1 : -1);
  if (/^[1-9]$/.test(key)) {
    const tab = document.querySelectorAll(".stuck .tabs > a")[Number(key) - 1];
    tab?.click();
    return Boolean(tab);
  }
  if (key === "c" && canWrite()) {
    if (projectPath()) visit(`${projectPath()}/jobs/new`);
    else openPalette("New job in ");
    return true;
  }
  return false;
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.body.dataset.letters === "off" || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (event.key.length === 1 && letter(event.key)) event.preventDefault();
});

document.addEventListener("click", (event) => {
  // A click with a modifier opens the link as usual, in another tab.
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const opener = event.target.closest("[data-palette], [data-help]");
  if (!opener) return;
  event.preventDefault();
  if (opener.matches("[data-palette]")) openPalette();
  else openHelp();
});

// ---- The jobs above and below

// The list that jobs were opened from: the paths of its jobs in their order, and of those that were opened.
const LIST_KEY = "list of jobs";
const storedList = () => JSON.parse(withStorage("sessionStorage", (storage) => storage.getItem(LIST_KEY)) ?? "{}");
const storeList = (list) => withStorage("sessionStorage", (storage) => storage.setItem(LIST_KEY, JSON.stringify(list)));

/** Returns the path of a job without that of a tab; `undefined` for other pages. */
function jobPath(path) {
  return path.match(/^\/projects\/[^/]+\/jobs\/job_\w+/)?.[0];
}

document.addEventListener("click", (event) => {
  // A new tab has a storage of its own, without the list.
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest("a[href]");
  const path = link && jobPath(link.pathname);
  if (!path) return;
  if (link.matches("[data-neighbor]")) {
    const { paths, opened = [] } = storedList();
    return storeList({ paths, opened: [...opened, path] });
  }
  const list = link.closest("[data-list]");
  if (!list) return;
  const paths = [...list.querySelectorAll("a.row-title")].map((title) => jobPath(title.pathname)).filter(Boolean);
  storeList({ paths: [...new Set(paths)], opened: [path] });
}, true);

/** Shows the links to the jobs above and below in the list that this job was opened from. */
function showNeighbors() {
  const links = document.querySelectorAll("[data-neighbor]");
  if (!links.length) return;
  const { paths = [], opened = [] } = storedList();
  const current = jobPath(location.pathname);
  const at = opened.includes(current) ? paths.indexOf(current) : -1;
  for (const link of links) {
    const path = at < 0 ? undefined : paths[at + Number(link.dataset.neighbor)];
    link.hidden = !path;
    if (path) link.href = path;
    // In the changes of a job, these letters go to files.
    if (document.getElementById("thread")) link.dataset.key = link.dataset.neighbor === "1" ? "j" : "k";
  }
}
document.addEventListener("turbo:load", showNeighbors);
document.addEventListener("turbo:render", showNeighbors);
showNeighbors();

// On Apple's systems the key is ⌘.
function nameKeys() {
  if (!/Mac|iP(hone|ad)/.test(navigator.platform)) return;
  for (const kbd of document.querySelectorAll(".jump > kbd")) kbd.textContent = "⌘K";
}
document.addEventListener("turbo:load", nameKeys);
nameKeys();

// ---- The theme

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("[data-theme-switch]");
  const button = event.submitter;
  if (!form || !button) return;
  event.preventDefault();
  const answer = await fetch(form.action, {
    method: "POST",
    body: new URLSearchParams({ theme: button.value }),
    redirect: "manual",
  });
  // The answer is a redirect to the page, which a script cannot read.
  if (answer.type !== "opaqueredirect") return form.submit();
  document.documentElement.dataset.theme = button.value;
  for (const one of document.querySelectorAll("[data-theme-switch] button")) one.setAttribute("aria-pressed", String(one.value === button.value));
});
