// On a phone each row of a table is a card, whose cells have the names of their columns.
"use strict";
for (const table of document.querySelectorAll("section .scroll table:not(.heat)")) {
  const names = [...(table.tHead?.rows[0].cells ?? [])].map((one) => one.textContent.trim());
  for (const cell of table.querySelectorAll("tbody td")) cell.dataset.name = names[cell.cellIndex] ?? "";
  if (names.length > 2) table.classList.add("cards-of-rows");
}
