// flame.js - a flame graph on a canvas: only what is in view and wider than half a pixel is drawn.
//
// Layout is a flat array of boxes in order of depth, made once a tree; x and width are shares of
// the root, so that zooming changes nothing but the two ends of the view. In a comparison widths are
// those of the one run or of the other, and the colour says what changed.
import { h, sharpen, color } from './dom.js';
import { figure, percent } from './format.js';
import { cutTo } from './names.js';

const ROW = 19;
const NARROW = 0.5; // pixels
const TALLEST = 32767; // pixels of the screen that a canvas has in every browser

function lay(root, width_of) {
  const rows = [];
  const total = root[width_of] || 1;
  const stack = [[root, 0]];
  while (stack.length > 0) {
    const [node, x] = stack.pop();
    const width = (node[width_of] || 0) / total;
    const box = { node, x, width, depth: node.depth };
    node.box = box;
    (rows[node.depth] ??= []).push(box);
    let at = x;
    for (const child of node.children) {
      stack.push([child, at]);
      at += child[width_of] / total;
    }
  }
  for (const row of rows) row.sort((a, b) => a.x - b.x);
  return rows;
}

function hue(text) {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) | 0;
  return Math.abs(hash);
}

/** Red: more than before, blue: less; grey: as before. */
export function paintOfChange(value, base, light) {
  const change = value === base ? 0 : (value - base) / Math.max(Math.abs(value), Math.abs(base));
  const strength = Math.min(1, Math.abs(change) * 1.5);
  return `hsl(${change > 0 ? 8 : 215} ${Math.round(75 * strength)}% ${light})`;
}

/** Warm colours by module, so that one library's frames look alike. */
function paintOf(node, module, matches, diff, light) {
  if (diff && !matches) return paintOfChange(node.value, node.base, light);
  if (matches) return `hsl(290 65% ${light})`;
  const hash = hue(module);
  return `hsl(${20 + (hash % 45)} ${52 + (hash % 30)}% ${light})`;
}

/** From the root to the node, as numbers of functions: short, and the same in each copy of a page. */
function pathOf(node) {
  const path = [];
  for (; node.parent; node = node.parent) path.unshift(node.fn);
  return path.join('.');
}

function find(root, path) {
  let node = root;
  for (const fn of (path ?? '').split('.').filter(Boolean)) {
    const next = node.children.find((child) => child.fn === Number(fn));
    if (!next) break;
    node = next;
  }
  return node;
}

/**
 * root: of Model.tree. options: {unit, diff, widths: 'value' or 'base', search, moduleOf(node),
 * onSelect(node, path), at: a path that onSelect was told}. Returns {element, show(root, options),
 * fps()}.
 */
export function flameGraph(root, options) {
  const canvas = h('canvas', { class: 'flame', tabindex: 0, role: 'application', 'aria-label': 'flame graph; arrow keys move, Enter zooms, Escape goes back' });
  const told = h('div', { class: 'flame-told', 'aria-live': 'polite' }, ' ');
  const note = h('p', { class: 'quiet', id: 'deeper', hidden: true });
  const element = h('div', { class: 'flame-box' }, told, canvas, note);
  let rows = lay(root, options.widths ?? 'value');
  let focus = find(root, options.at);
  let view = { from: focus.box.x, to: focus.box.x + Math.max(focus.box.width, 1e-9) };
  let goal = view;
  let hovered = null;
  let running = false;
  let frames = [];

  const width = () => element.clientWidth || 900;
  const matches = (node) => options.search && options.search.test(node.name);

  function draw() {
    const wide = width();
    const drawn = rows.slice(0, Math.floor((TALLEST / (window.devicePixelRatio || 1) - 2) / ROW));
    const deeper = rows.length - drawn.length;
    note.hidden = deeper === 0;
    note.textContent = `${deeper} deeper rows left out`;
    const tall = drawn.length * ROW + 2;
    const context = sharpen(canvas, wide, tall);
    context.clearRect(0, 0, wide, tall);
    context.font = '11.5px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const scale = wide / (view.to - view.from);
    const ink = color('flame-ink');
    const light = color('flame-light');
    const styles = new Map();
    for (const row of drawn) {
      let lastRight = -1;
      for (const box of row) {
        const right = (box.x + box.width - view.from) * scale;
        const left = Math.max(0, (box.x - view.from) * scale);
        if (right <= 0) continue;
        if (left >= wide) break;
        const shown = Math.min(right, wide) - left;
        if (right - left < NARROW && right - lastRight < NARROW) continue;
        lastRight = right;
        const key = options.diff ? box.node : `${options.moduleOf(box.node)}|${Boolean(matches(box.node))}`;
        let style = styles.get(key);
        if (style === undefined) styles.set(key, (style = paintOf(box.node, options.moduleOf(box.node), matches(box.node), options.diff, light)));
        context.fillStyle = box.node === root ? color('grid') : style;
        context.fillRect(left, box.depth * ROW, Math.max(NARROW, shown - 0.6), ROW - 1);
        if (box.node.errors > 0 && box.node !== root) {
          context.fillStyle = color('error');
          context.fillRect(left, box.depth * ROW + ROW - 4, Math.max(2, shown - 0.6), 3);
        }
        if (box.node === hovered) {
          context.strokeStyle = color('ink');
          context.strokeRect(left + 0.5, box.depth * ROW + 0.5, Math.max(1, shown - 1.6), ROW - 2);
        }
        if (shown < 26) continue;
        context.fillStyle = box.node === root ? color('ink') : ink;
        const fits = Math.floor((shown - 6) / 6.2);
        context.fillText(cutTo(box.node.name, Math.max(1, fits)), left + 3, box.depth * ROW + ROW / 2);
      }
    }
  }

  function step(now) {
    frames.push(now);
    if (frames.length > 240) frames = frames.slice(-120);
    const near = Math.abs(view.from - goal.from) + Math.abs(view.to - goal.to) < (goal.to - goal.from) * 1e-3;
    view = near ? goal : { from: view.from + (goal.from - view.from) * 0.3, to: view.to + (goal.to - view.to) * 0.3 };
    draw();
    running = !near;
    if (running) requestAnimationFrame(step);
  }

  function zoom(node) {
    focus = node;
    goal = { from: node.box.x, to: node.box.x + Math.max(node.box.width, 1e-9) };
    if (!running) {
      running = true;
      frames = [];
      requestAnimationFrame(step);
    }
    tell(node);
    options.onSelect?.(node, pathOf(node));
  }

  function tell(node) {
    const more = node.value - node.base;
    const base = options.diff ? `, before ${figure(node.base, options.unit)}, ${more < 0 ? '' : '+'}${figure(more, options.unit)}` : '';
    told.textContent = `${node.name}: ${figure(node.value, options.unit)}, ${percent(node.value, root.value)} of all${node.self > 0 ? `, itself ${figure(node.self, options.unit)}` : ''}${base}${node.errors > 0 ? `; ${node.errors} memory error${node.errors === 1 ? '' : 's'} in its blocks` : ''}`;
  }

  function hit(event) {
    const row = rows[Math.floor(event.offsetY / ROW)];
    if (!row) return null;
    const x = view.from + (event.offsetX / width()) * (view.to - view.from);
    let low = 0;
    let high = row.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const box = row[middle];
      if (x < box.x) high = middle - 1;
      else if (x >= box.x + box.width) low = middle + 1;
      else return box.node;
    }
    return null;
  }

  canvas.addEventListener('pointermove', (event) => {
    const node = hit(event);
    if (node === hovered) return;
    hovered = node;
    tell(node ?? focus);
    if (!running) draw();
  });
  canvas.addEventListener('click', (event) => {
    const node = hit(event);
    if (node) zoom(node === focus && node.parent ? node.parent : node);
  });
  canvas.addEventListener('keydown', (event) => {
    const siblings = focus.parent?.children ?? [focus];
    const next = {
      ArrowDown: focus.children[0], ArrowUp: focus.parent, Escape: root, Home: root,
      ArrowRight: siblings[siblings.indexOf(focus) + 1], ArrowLeft: siblings[siblings.indexOf(focus) - 1],
    }[event.key];
    if (!next) return;
    event.preventDefault();
    zoom(next);
  });
  new ResizeObserver(() => draw()).observe(element);
  tell(focus);
  if (focus !== root) options.onSelect?.(focus, options.at);

  return {
    element,
    show(nextRoot, nextOptions) {
      options = { ...options, ...nextOptions };
      if (nextRoot === root) {
        draw();
        return;
      }
      root = nextRoot;
      rows = lay(root, options.widths ?? 'value');
      focus = root;
      hovered = null;
      view = goal = { from: 0, to: 1 };
      tell(root);
      draw();
    },
    root: () => root,
    reset: () => zoom(root),
    /** Frames per second of the last zoom; for tests of smoothness. */
    fps: () => (frames.length < 2 ? null : (1000 * (frames.length - 1)) / (frames.at(-1) - frames[0])),
    /** The box of a node in CSS pixels; null: not drawn. For tests and links. */
    boxOf: (node) => node.box && { left: ((node.box.x - view.from) / (view.to - view.from)) * width(), top: node.depth * ROW },
  };
}
