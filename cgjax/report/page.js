"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  const FEW_CLAIMS = 12, FEW_FIGURES = 4;

  // --- light and dark: as the system says, until somebody says otherwise ---
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const kept = { get: () => null, set: () => {} };
  try {  // a file's page may have no storage
    const storage = window.localStorage;
    kept.get = () => storage.getItem("theme");
    kept.set = (theme) => storage.setItem("theme", theme);
  } catch { /* then the choice lasts as long as the page */ }
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { one("#theme").textContent = isDark() ? "light" : "dark"; };
  if (["light", "dark"].includes(kept.get())) root.dataset.theme = kept.get();
  one("#theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    kept.set(root.dataset.theme);
    nameTheme();
  });
  system.addEventListener("change", nameTheme);
  nameTheme();

  // --- of long lists the first few, and a button for the others ---
  const shorten = (list, few, noun) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "all";
    list.after(button);
    let isLong = false;
    const show = (items) => {
      items.forEach((item, i) => { item.hidden = !isLong && i >= few; });
      button.hidden = items.length <= few;
      button.textContent = isLong ? `the first ${few} only` : `all ${items.length} ${noun}`;
    };
    button.addEventListener("click", () => { isLong = !isLong; update(); });
    return show;
  };

  // --- claims: search, filters, order ---
  const tables = all("table.claims").map((table) => {
    const body = table.tBodies[0];
    const rows = all(":scope > tr", body).map((row) => ({
      row, text: row.textContent.toLowerCase(), ...row.dataset,
    }));
    return { table, body, rows, section: table.closest("section"), show: shorten(table, FEW_CLAIMS, "claims") };
  });
  const galleries = all(".gallery").map((gallery) => ({
    figures: all("figure", gallery), show: shorten(gallery, FEW_FIGURES, "figures"),
  }));
  const total = tables.reduce((n, { rows }) => n + rows.length, 0);
  const pressed = () => all("#controls .chip[aria-pressed=true]").map((chip) => chip.dataset.word);

  const update = () => {
    const words = one("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = ["family", "kind", "form"].map((name) => [name, one(`#${name}`).value]);
    const verdicts = pressed(), own = Boolean(one("#own")?.checked);
    const isWanted = (claim) =>
      wanted.every(([name, value]) => !value || claim[name] === value)
      && (!verdicts.length || verdicts.includes(claim.word) || verdicts.includes(claim.yours))
      && (!own || claim.yours !== undefined)
      && words.every((word) => claim.text.includes(word));
    const isFiltered = words.length + verdicts.length > 0 || own || wanted.some(([, value]) => value);
    let shown = 0;
    const sections = new Set(tables.map(({ section }) => section)), empty = new Set(sections);
    for (const { table, rows, section, show } of tables) {
      const found = rows.filter(isWanted);
      shown += found.length;
      rows.forEach(({ row }) => { row.hidden = true; });
      show(found.map(({ row }) => row));
      table.hidden = !found.length && isFiltered;
      if (found.length) empty.delete(section);
    }
    sections.forEach((section) => { section.hidden = isFiltered && empty.has(section); });
    galleries.forEach(({ figures, show }) => show(figures));
    document.body.classList.toggle("filtered", isFiltered);
    one("#nothing").hidden = shown > 0 || !isFiltered;
    one("#count").textContent = isFiltered ? `${shown} of ${total} claims` : `${total} claims`;
  };

  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell.classList.contains("c-claim")) return cell.dataset.sort === undefined ? NaN : +cell.dataset.sort;
    return cell.textContent;
  };
  const compare = (a, b) => {  // what has no number comes last, whichever way
    if (typeof a === "string") return a.localeCompare(b);
    return a - b;
  };
  const sort = (entry, column, direction) => {
    const isMissing = (x) => Number.isNaN(x);
    entry.rows.sort((a, b) => {
      if (!direction) return a.n - b.n;
      const [x, y] = [value(a.row, column), value(b.row, column)];
      if (isMissing(x) || isMissing(y)) return isMissing(x) - isMissing(y) || a.n - b.n;
      return direction * compare(x, y) || a.n - b.n;
    });
    entry.body.append(...entry.rows.map(({ row }) => row));
  };
  for (const entry of tables) {
    all("th", entry.table).forEach((head, column, heads) => {
      head.querySelector("button").addEventListener("click", () => {
        const order = { none: "ascending", ascending: "descending", descending: "none" };
        const next = order[head.getAttribute("aria-sort") ?? "none"];
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        if (next !== "none") head.setAttribute("aria-sort", next);
        sort(entry, column, { none: 0, ascending: 1, descending: -1 }[next]);
        update();
      });
    });
  }
  one("#controls").addEventListener("submit", (event) => event.preventDefault());
  one("#controls").addEventListener("input", update);
  all("#controls .chip").forEach((chip) => chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", chip.getAttribute("aria-pressed") !== "true");
    update();
  }));
  update();

  // --- figures open large ---
  const dialog = one("dialog"), large = one("#large");
  all("figure .open").forEach((button) => button.addEventListener("click", () => {
    const caption = document.createElement("p");
    caption.textContent = button.parentElement.querySelector("figcaption").textContent;
    large.replaceChildren(caption, button.firstElementChild.cloneNode(true));
    dialog.showModal();
  }));
  one("#close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
})();
