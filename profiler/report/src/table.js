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
 * share(row): 0..1 for a bar, paint(row): a background, tip}..]; a column with a unit is a figure and
 * sorts downwards first, by order(row) if it has one. onSort is told of {id, down}.
 */
export function table({ columns, rows, sort, onSort, onOpen, height = 480, label, empty = 'Nothing to show.' }) {
  let order = { id: sort?.id ?? columns.find((c) => c.unit)?.id ?? columns[0].id, down: sort?.down ?? true };
  let sorted = rows;
  let selected = -1;
  const head = h('div', { class: 'vhead', role: 'row' });
  const space = h('div', { class: 'vspace' });
  const body = h('div', { class: 'vbody', tabindex: 0, role: 'rowgroup', onscroll: () => draw(), onkeydown: onKey }, space);
  const element = h('div', { class: 'vtable', role: 'table', 'aria-label': label, 'aria-rowcount': rows.length }, head, body);
  // What the columns need at least; a narrower screen scrolls.
  const least = columns.reduce((sum, c) => sum + Number((c.width ?? '6rem').match(/([\d.]+)rem/)?.[1] ?? 6), 0);
  head.style.minWidth = body.style.minWidth = `${least}rem`;
  const template = columns.map((c) => c.width ?? 'minmax(6rem, 1fr)').join(' ');

  function arrange() {
    // An order that is none of the columns': as the rows came.
    const column = columns.find((c) => c.id === order.id);
    const sign = order.down ? -1 : 1;
    const key = column?.order ?? column?.value;
    sorted = !column ? rows : [...rows].sort((a, b) => {
      const x = key(a);
      const y = key(b);
      return x < y ? -sign : x > y ? sign : 0;
    });
    replace(head, columns.map((c) => h('button', {
      class: `vcell vtitle${c.unit ? ' figure' : ''}`, role: 'columnheader', 'data-tip': c.tip,
      'aria-sort': c.id !== order.id ? 'none' : order.down ? 'descending' : 'ascending',
      onclick: () => {
        order = { id: c.id, down: c.id === order.id ? !order.down : Boolean(c.unit) };
        onSort?.(order);
        arrange();
        draw();
      },
    }, c.name, c.id === order.id ? (order.down ? ' ▾' : ' ▴') : '')));
    head.style.gridTemplateColumns = template;
    const fits = Math.min(height, Math.max(1, rows.length) * ROW + 2);
    body.style.height = `${fits}px`;
    space.style.height = `${sorted.length * ROW}px`;
  }

  function draw(paper) {
    const first = paper ? 0 : Math.max(0, Math.floor(body.scrollTop / ROW) - 4);
    const last = paper ?? Math.min(sorted.length, first + Math.ceil(body.clientHeight / ROW) + 9);
    const shown = [];
    for (let i = first; i < last; i++) {
      const row = sorted[i];
      shown.push(h('div', {
        class: `vrow${i === selected ? ' selected' : ''}`, role: 'row', 'aria-rowindex': i + 1,
        style: { top: `${i * ROW}px`, gridTemplateColumns: template },
        onclick: () => {
          selected = i;
          onOpen?.(row);
          draw();
        },
      }, columns.map((c) => {
        const share = c.share?.(row);
        return h('div', {
          class: `vcell${c.unit ? ' figure' : ''}`, role: 'cell',
          style: c.paint ? { backgroundColor: c.paint(row) } : share > 0 ? { backgroundImage: `linear-gradient(to left, var(--bar) ${Math.min(100, 100 * share)}%, transparent 0)` } : undefined,
        }, c.cell ? c.cell(row) : c.unit ? figure(c.value(row), c.unit) : c.value(row));
      })));
    }
    replace(space, rows.length === 0 ? h('p', { class: 'empty' }, empty) : shown);
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
    if (event.key === 'Enter' && selected >= 0) onOpen?.(sorted[selected]);
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
      element.setAttribute('aria-rowcount', rows.length);
      arrange();
      draw();
    },
    /** All rows in their order, as comma-separated values. */
    csv() {
      const quote = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
      return [columns.map((c) => quote(c.title ?? c.id)), ...sorted.map((row) => columns.map((c) => quote(c.value(row))))]
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
