// table.js - a table of any length: only the rows in view are in the document.
import { h, replace } from './dom.js';
import { figure } from './format.js';

const ROW = 26; // pixels, as in style.css
const PRINTED = 200; // rows at most on paper

/** Tables that may be in the document. */
const printed = new Set();

function eachPrinted(on) {
  for (const each of printed) {
    if (each.element.isConnected) each.whole(on);
    else printed.delete(each);
  }
}
window.addEventListener('beforeprint', () => eachPrinted(true));
window.addEventListener('afterprint', () => eachPrinted(false));

/**
 * columns: [{id, name (text or element), unit, value(row), order(row), cell(row) -> child, width,
 * share(row, value): 0..1 for a bar, paint(row): a background, tip}..]; a column with a unit is a
 * figure and sorts downwards first, by order(row) if it has one. onSort is told of {id, down}.
 *
 * groups: {of(row): key or null, label(rows), column: id}: rows of one key are one row with the label in
 * that column, which unfolds, where there are two or more. A figure of it is ofGroup(rows, key) of the
 * column, or the sum if the column has `sum`.
 */
export function table({ columns, rows, sort, onSort, onOpen, groups, height = 480, label, empty = 'Nothing to show.' }) {
  let order = { id: sort?.id ?? columns.find((c) => c.unit)?.id ?? columns[0].id, down: sort?.down ?? true };
  let sorted = []; // what is shown: {row} or {members, key}; inner: {row} of a group
  let selected = -1;
  const unfolded = new Set();
  const head = h('div', { class: 'vhead', role: 'row' });
  const space = h('div', { class: 'vspace' });
  const body = h('div', { class: 'vbody', tabindex: 0, role: 'rowgroup', onscroll: () => draw(), onkeydown: onKey }, space);
  const element = h('div', { class: 'vtable', role: 'table', 'aria-label': label, 'aria-rowcount': rows.length }, head, body);
  // What the columns need at least; a narrower screen scrolls. A part ("3fr") is for names: as many times 4rem.
  const least = columns.reduce((sum, c) => {
    const [, size, unit] = (c.width ?? '6rem').match(/([\d.]+)(rem|fr)/) ?? [0, 6, 'rem'];
    return sum + Number(size) * (unit === 'fr' ? 4 : 1);
  }, 0);
  head.style.minWidth = body.style.minWidth = `${least}rem`;
  const template = columns.map((c) => c.width ?? 'minmax(6rem, 1fr)').join(' ');

  /** The rows, those of a group put together. */
  function folded() {
    if (!groups) return rows.map((row) => ({ row }));
    const found = new Map();
    const entries = [];
    for (const row of rows) {
      const key = groups.of(row);
      const entry = key === null ? { row } : found.get(key) ?? { key, members: [] };
      if (key === null || !found.has(key)) entries.push(entry);
      if (key === null) continue;
      found.set(key, entry);
      entry.members.push(row);
    }
    return entries.map((entry) => (entry.members?.length === 1 ? { row: entry.members[0] } : entry));
  }

  function valueOf(column, { row, members, key }) {
    if (!members) return column.value(row);
    if (column.ofGroup) return column.ofGroup(members, key);
    if (column.sum) return members.reduce((sum, each) => sum + column.value(each), 0);
    if (column.id === groups.column) return groups.label(members);
    return column.unit ? NaN : '';
  }

  /** Unfolds a group, or opens a row. */
  function open(entry) {
    if (!entry.members) {
      onOpen?.(entry.row);
      return;
    }
    if (!unfolded.delete(entry.key)) unfolded.add(entry.key);
    arrange();
    draw();
  }

  function cellOf(column, entry) {
    const { row, members, key, inner } = entry;
    if (members && column.id === groups.column) {
      const isOpen = unfolded.has(key);
      return [h('button', { class: 'twist', tabindex: -1, 'aria-expanded': String(isOpen), 'aria-label': `unfold ${groups.label(members)}` }, isOpen ? '▾' : '▸'), groups.label(members)];
    }
    const shown = !members && column.cell ? column.cell(row) : column.unit ? figure(valueOf(column, entry), column.unit) : valueOf(column, entry);
    return inner && column.id === groups.column ? h('span', { class: 'inner' }, shown) : shown;
  }

  function arrange() {
    // An order that is none of the columns': as the rows came.
    const column = columns.find((c) => c.id === order.id);
    const sign = order.down ? -1 : 1;
    const key = (entry) => {
      const value = entry.members ? valueOf(column, entry) : (column.order ?? column.value)(entry.row);
      return Number.isNaN(value) ? -Infinity : value;
    };
    const inOrder = (entries) => (!column ? entries : entries.map((entry) => [key(entry), entry])
      .sort(([x], [y]) => (x < y ? -sign : x > y ? sign : 0)).map(([, entry]) => entry));
    sorted = inOrder(folded()).flatMap((entry) => (unfolded.has(entry.key) && entry.members
      ? [entry, ...inOrder(entry.members.map((row) => ({ row, inner: true })))] : [entry]));
    element.setAttribute('aria-rowcount', sorted.length);
    replace(head, columns.map((c) => h('div', {
      class: 'vcell', role: 'columnheader', 'aria-sort': c.id !== order.id ? 'none' : order.down ? 'descending' : 'ascending',
    }, h('button', {
      class: `vtitle${c.unit ? ' figure' : ''}`, 'data-tip': c.tip,
      onclick: () => {
        order = { id: c.id, down: c.id === order.id ? !order.down : Boolean(c.unit) };
        onSort?.(order);
        arrange();
        draw();
      },
    }, c.name, c.id === order.id ? (order.down ? ' ▾' : ' ▴') : ''))));
    head.style.gridTemplateColumns = template;
    const fits = Math.min(height, Math.max(1, sorted.length) * ROW + 2);
    body.style.height = `${fits}px`;
    space.style.height = `${sorted.length * ROW}px`;
  }

  function draw(paper) {
    const first = paper ? 0 : Math.max(0, Math.floor(body.scrollTop / ROW) - 4);
    const last = paper ?? Math.min(sorted.length, first + Math.ceil(body.clientHeight / ROW) + 9);
    const shown = [];
    for (let i = first; i < last; i++) {
      const entry = sorted[i];
      const { row, members } = entry;
      shown.push(h('div', {
        class: `vrow${i === selected ? ' selected' : ''}`, role: 'row', 'aria-rowindex': i + 1,
        style: { top: `${i * ROW}px`, gridTemplateColumns: template },
        onclick: () => {
          selected = i;
          open(entry);
          draw();
        },
      }, columns.map((c) => {
        const share = members && !c.sum && !c.ofGroup ? undefined : c.share?.(row, valueOf(c, entry));
        return h('div', {
          class: `vcell${c.unit ? ' figure' : ''}`, role: 'cell',
          style: c.paint && !members ? { backgroundColor: c.paint(row) } : share > 0 ? { backgroundImage: `linear-gradient(to left, var(--bar) ${Math.min(100, 100 * share)}%, transparent 0)` } : undefined,
        }, cellOf(c, entry));
      })));
    }
    replace(space, rows.length === 0 ? h('div', { class: 'empty', role: 'row' }, h('div', { role: 'cell' }, empty)) : shown);
  }

  /** For paper: the first rows at their full height, or back to what fits. */
  function whole(on) {
    if (!on) {
      arrange();
      draw();
      return;
    }
    const count = Math.min(sorted.length, PRINTED);
    body.style.height = space.style.height = `${count * ROW}px`;
    draw(count);
  }

  function onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === 'Enter' && selected >= 0) open(sorted[selected]);
    if (step === undefined) return;
    event.preventDefault();
    selected = Math.min(sorted.length - 1, Math.max(0, selected + step));
    const top = selected * ROW;
    if (top < body.scrollTop) body.scrollTop = top;
    if (top + ROW > body.scrollTop + body.clientHeight) body.scrollTop = top + ROW - body.clientHeight;
    draw();
  }

  arrange();
  requestAnimationFrame(() => draw());
  printed.add({ element, whole });
  return {
    element,
    /** Other rows, in the same order of columns. */
    show(next) {
      rows = next;
      selected = -1;
      arrange();
      draw();
    },
    /** All rows in their order, those of groups too, as comma-separated values. */
    csv() {
      const all = sorted.filter((entry) => !entry.inner).flatMap(({ row, members }) => members ?? [row]);
      const quote = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
      return [columns.map((c) => quote(c.title ?? c.id)), ...all.map((row) => columns.map((c) => quote(c.value(row))))]
        .map((cells) => cells.join(',')).join('\n');
    },
  };
}

/** A link that saves a table's rows to a file. */
export function csvButton(shown, name) {
  return h('button', {
    class: 'quiet',
    onclick: () => {
      const url = URL.createObjectURL(new Blob([shown.csv()], { type: 'text/csv' }));
      const anchor = h('a', { href: url, download: name });
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
    },
  }, 'Save as CSV');
}
