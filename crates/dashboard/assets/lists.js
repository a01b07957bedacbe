// Lists and forms: choosing and archiving jobs by keyboard and as a range, inserting texts into a prompt, choosing a
// template, and sending the first job of a project after the first push. The pages work without this script.
"use strict";

(() => {
  // Turbo may run the script again; the listeners are on the document and are added once.
  if (window.journeymanLists) return;
  window.journeymanLists = true;

  const isTyping = (target) => target.closest?.("input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]");

  // The ID of the box that was changed last on this page.
  let last;
  document.addEventListener("turbo:load", () => { last = undefined; });

  function showScripted() {
    for (const element of document.querySelectorAll("[data-scripted][hidden]")) element.hidden = false;
  }

  // x chooses the job of the row in focus, and e archives the chosen jobs, or that of the row in focus.
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.body.dataset.letters === "off" || document.querySelector("dialog[open]")) return;
    if (event.key !== "x" && event.key !== "e") return;
    const own = document.activeElement?.closest("[data-list] > .row")?.querySelector(".choose");
    if (event.key === "x" && own) {
      event.preventDefault();
      own.checked = !own.checked;
      last = own.id;
    }
    const bulk = document.getElementById("bulk");
    if (event.key === "e" && bulk) {
      if (own && !document.querySelector(".choose:checked")) own.checked = true;
      if (!document.querySelector(".choose:checked")) return;
      event.preventDefault();
      bulk.requestSubmit();
    }
  });

  // Escape ends the choice. It runs in the capture phase, before an open menu is closed by the same key.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing || isTyping(event.target)) return;
    if (document.querySelector("dialog[open], details.menu[open], details.confirm[open]")) return;
    for (const box of document.querySelectorAll(".choose:checked")) box.checked = false;
    last = undefined;
  }, true);

  // A click with Shift gives all boxes between the last changed one and this one the state of this one.
  document.addEventListener("click", (event) => {
    const box = event.target.closest(".choose");
    if (!box) return;
    const boxes = [...document.querySelectorAll("[data-list] .choose")];
    const from = boxes.findIndex((one) => one.id === last);
    const to = boxes.indexOf(box);
    last = box.id;
    if (!event.shiftKey || from < 0) return;
    for (const one of boxes.slice(Math.min(from, to), Math.max(from, to) + 1)) one.checked = box.checked;
  });

  // Inserts a text at the cursor.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-insert]");
    const area = button?.form?.querySelector("textarea") ?? button?.closest("form")?.querySelector("textarea");
    if (!area) return;
    const { value, selectionStart: start, selectionEnd: end } = area;
    const before = value.slice(0, start);
    const space = before === "" || /\s$/.test(before) ? "" : " ";
    area.setRangeText(space + button.dataset.insert, start, end, "end");
    area.dispatchEvent(new Event("input", { bubbles: true }));
    area.focus();
  });

  // A template replaces entered text only after a confirmation. Text in a form that the server refused counts as
  // entered text.
  function isEntered(form) {
    const fields = [...form.elements].filter((field) => field.matches("textarea, input:not([type=hidden], [type=checkbox])"));
    return "typed" in form.dataset || fields.some((field) => field.value !== field.defaultValue);
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-replaces]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (!isEntered(document.getElementById(link.dataset.replaces))) return;
    event.preventDefault();
    document.getElementById("replace-go").href = link.href;
    document.getElementById("replace").showModal();
  });

  // A first job that is sent before the first push waits for it. A new page forgets it.
  let waitsForPush = false;

  function showWaiting() {
    const button = document.getElementById("first-send");
    if (button && waitsForPush) button.textContent = "Will be sent after the push";
  }

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("#first-job[data-after-push]")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    waitsForPush = true;
    showWaiting();
  }, true);
  document.addEventListener("input", (event) => {
    if (!waitsForPush || event.target.id !== "first" || event.target.value.trim() !== "") return;
    waitsForPush = false;
    document.getElementById("first-send").textContent = "Send after the push";
  });
  document.addEventListener("turbo:render", () => {
    showScripted();
    const form = document.getElementById("first-job");
    if (!form) { waitsForPush = false; return; }
    if (!waitsForPush) return;
    if (form.hasAttribute("data-after-push")) { showWaiting(); return; }
    waitsForPush = false;
    form.requestSubmit();
  });

  // A refresh of the page keeps what is chosen and what is being typed.
  document.addEventListener("turbo:before-morph-element", (event) => {
    const element = event.target;
    const isOwn = element.matches?.(".choose, .pick > input") || (element === document.activeElement && element.matches?.("input, select"));
    if (isOwn && event.detail.newElement) event.preventDefault();
  });

  document.addEventListener("turbo:load", showScripted);
  showScripted();
})();
