// Enhancements of the documentation: the chosen language of examples, and a filter of the pages. The pages
// work without this script.
"use strict";

for (const button of document.querySelectorAll(".copy[hidden]")) button.hidden = false;

document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details.menu[open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});

// The language that the reader chose last. Without storage, the choice lasts until the page is left.
const LANGUAGE = "journeyman-language";
const chosen = withStorage("localStorage", (storage) => storage.getItem(LANGUAGE));
for (const tab of document.querySelectorAll('input[name="language"]')) {
  if (tab.id === chosen) tab.checked = true;
  tab.addEventListener("change", () => withStorage("localStorage", (storage) => storage.setItem(LANGUAGE, tab.id)));
}

const filter = document.getElementById("docs-filter");
const groups = [...document.querySelectorAll(".docs-nav details")];
const wasOpen = groups.map((group) => group.open);
filter.parentElement.hidden = false;

filter.addEventListener("input", () => {
  const words = filter.value.trim().toLowerCase();
  let shown = 0;
  for (const [index, group] of groups.entries()) {
    let matches = 0;
    for (const item of group.querySelectorAll("li")) {
      const link = item.firstElementChild;
      item.hidden = !`${link.textContent} ${link.pathname}`.toLowerCase().includes(words);
      if (!item.hidden) matches += 1;
    }
    group.hidden = matches === 0;
    group.open = words === "" ? wasOpen[index] : matches > 0;
    shown += matches;
  }
  document.querySelector(".docs-none").hidden = shown > 0;
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, textarea, select, [contenteditable]");
  if (event.key === "/" && !isTyping && document.body.dataset.letters !== "off" && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    filter.focus();
  }
  if (event.key === "Escape" && event.target === filter) {
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
  }
});

// Shows the current page in the navigation. This must scroll only the navigation, which is below the text on a phone.
const navigation = document.querySelector(".docs-nav");
const current = navigation.querySelector("[aria-current]");
if (current) navigation.scrollTop = current.offsetTop - navigation.clientHeight / 2;
