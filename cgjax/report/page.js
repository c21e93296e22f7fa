"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);
  const FEW_CLAIMS = 12, FEW_APART = 4, FEW_FIGURES = 4;

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
      items.forEach((item, i) => { item.hidden = !isLong && i >= few && item !== linked(); });
      button.hidden = items.length <= few;
      button.textContent = isLong ? `the first ${few} only` : `all ${items.length} ${noun}`;
    };
    button.addEventListener("click", () => { isLong = !isLong; update(); });
    return show;
  };

  // --- claims: search, filters, order, and the claim that the address names ---
  const linked = () => {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* not an encoded name */ }
    return document.getElementById(name)?.closest("table.claims > tbody > tr") ?? null;
  };
  const tables = all("table.claims").map((table) => {
    const body = table.tBodies[0], few = table.matches(":has(th.c-published)") ? FEW_CLAIMS : FEW_APART;
    const rows = all(":scope > tr", body).map((row) => ({
      row, text: row.textContent.toLowerCase(), ...row.dataset,
    }));
    const title = table.previousElementSibling;
    return { table, title, body, rows, section: table.closest("section"), show: shorten(table, few, "claims") };
  });
  const galleries = all(".gallery").map((gallery) => ({
    figures: all("figure", gallery), show: shorten(gallery, FEW_FIGURES, "figures"),
  }));
  const total = tables.reduce((n, { rows }) => n + rows.length, 0);
  const chips = all("#controls .chip");
  const fields = ["search", "family", "kind", "form"].map((name) => one(`#${name}`));
  const counted = (n) => `${n} claim${n === 1 ? "" : "s"}`;

  const update = () => {
    const words = fields[0].value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = fields.slice(1).map(({ id, value }) => [id, value]);
    const verdicts = chips.filter((chip) => chip.ariaPressed === "true").map((chip) => chip.dataset.word);
    const own = Boolean(one("#own")?.checked), named = linked();
    const isWanted = (claim) =>
      wanted.every(([name, value]) => !value || claim[name] === value)
      && (!verdicts.length || verdicts.includes(claim.word) || verdicts.includes(claim.yours))
      && (!own || claim.yours !== undefined)
      && words.every((word) => claim.text.includes(word));
    const isFiltered = words.length + verdicts.length > 0 || own || wanted.some(([, value]) => value);
    let shown = 0;
    const sections = new Set(tables.map(({ section }) => section)), empty = new Set(sections);
    for (const { table, title, rows, section, show } of tables) {
      const found = rows.filter((claim) => claim.row === named || isWanted(claim));
      shown += found.length;
      rows.forEach(({ row }) => { row.hidden = true; });
      show(found.map(({ row }) => row));
      table.hidden = title.hidden = !found.length && isFiltered;
      if (found.length) empty.delete(section);
    }
    sections.forEach((section) => {
      section.hidden = isFiltered && empty.has(section);
      one(`nav a[href="#${section.id}"]`).parentElement.hidden = section.hidden;
    });
    galleries.forEach(({ figures, show }) => show(figures));
    document.body.classList.toggle("filtered", isFiltered);
    one("#nothing").hidden = shown > 0 || !isFiltered;
    one("#count").textContent = isFiltered ? `${shown} of ${counted(total)}` : counted(total);
  };

  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell.classList.contains("c-claim")) return cell.dataset.sort === undefined ? NaN : +cell.dataset.sort;
    return cell.textContent;
  };
  const compare = (a, b) => typeof a === "string" ? a.localeCompare(b) : a - b;
  const COLUMNS = ["verdict", "claim", "theirs", "ours", "difference"];
  let order = "";  // the column that all tables are sorted by; "-ours": from the greatest
  const sort = () => {
    const column = COLUMNS.indexOf(order.replace("-", "")), direction = order.startsWith("-") ? -1 : 1;
    const isMissing = (x) => Number.isNaN(x);  // what has no number comes last, whichever way
    for (const { table, body, rows } of tables) {
      all("th", table).forEach((head, i) => {
        if (i === column) head.ariaSort = direction > 0 ? "ascending" : "descending";
        else head.removeAttribute("aria-sort");
      });
      rows.sort((a, b) => {
        if (column < 0) return a.n - b.n;
        const [x, y] = [value(a.row, column), value(b.row, column)];
        if (isMissing(x) || isMissing(y)) return isMissing(x) - isMissing(y) || a.n - b.n;
        return direction * compare(x, y) || a.n - b.n;
      });
      body.append(...rows.map(({ row }) => row));
    }
  };

  // --- the address holds search, filters and order, so that links and the back button keep them ---
  let isTyping = false;  // letters of one search are one step back
  const writeAddress = (typing = false) => {
    const query = new URLSearchParams();
    fields.forEach(({ id, value }) => { if (value) query.set(id, value); });
    chips.forEach((chip) => { if (chip.ariaPressed === "true") query.append("verdict", chip.dataset.word); });
    if (one("#own")?.checked) query.set("own", "1");
    if (order) query.set("sort", order);
    const text = query.toString();
    history[typing && isTyping ? "replaceState" : "pushState"](null, "", text ? `?${text}` : location.pathname);
    isTyping = typing;
  };
  const readAddress = () => {
    const query = new URLSearchParams(location.search);
    fields.forEach((field) => {
      field.value = query.get(field.id) ?? "";
      if (field.selectedIndex < 0) field.value = "";  // a choice that the page does not have
    });
    const verdicts = query.getAll("verdict");
    chips.forEach((chip) => { chip.ariaPressed = String(verdicts.includes(chip.dataset.word)); });
    if (one("#own")) one("#own").checked = query.has("own");
    order = COLUMNS.includes(query.get("sort")?.replace("-", "")) ? query.get("sort") : "";
    isTyping = false;
    sort();
    update();
    const row = linked();
    if (row) {
      one("details", row).open = true;
      row.scrollIntoView({ block: "center" });
    }
  };
  for (const { table } of tables) {
    all("th", table).forEach((head, i) => one("button", head).addEventListener("click", () => {
      const name = COLUMNS[i];
      order = { [name]: `-${name}`, [`-${name}`]: "" }[order] ?? name;
      writeAddress();
      sort();
      update();
    }));
  }
  one("#controls").addEventListener("submit", (event) => event.preventDefault());
  one("#controls").addEventListener("input", (event) => {
    writeAddress(event.target.id === "search");
    update();
  });
  chips.forEach((chip) => chip.addEventListener("click", () => {
    chip.ariaPressed = String(chip.ariaPressed !== "true");
    writeAddress();
    update();
  }));
  addEventListener("popstate", readAddress);  // back, forward, and links within the page
  readAddress();

  // --- commands are copied ---
  const copy = async (text, code) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {  // a browser that gives a file's page no clipboard
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    const code = button.parentElement.querySelector(".command");
    await copy(code.textContent, code);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  });

  // --- figures open large ---
  const dialog = one("dialog"), large = one("#large");
  all("figure .open").forEach((button) => button.addEventListener("click", () => {
    one("#large-caption").textContent = one("figcaption", button.parentElement).textContent;
    large.replaceChildren(button.firstElementChild.cloneNode(true));
    dialog.showModal();
  }));
  one("#close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
})();
