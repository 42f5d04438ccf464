// charts.js - bars, heat maps and the small lines of tables. Lines over time: timechart.js.
import { h, sharpen, color } from './dom.js';
import { figure } from './format.js';
import { term } from './terms.js';

/** A small line for a row of a table. */
export function sparkline(values, width = 110, height = 20) {
  const canvas = h('canvas', { class: 'spark', 'aria-hidden': true });
  const context = sharpen(canvas, width, height);
  const most = Math.max(1, ...values);
  context.beginPath();
  context.moveTo(0, height);
  values.forEach((value, i) => context.lineTo((i * width) / Math.max(1, values.length - 1), height - 1 - ((value ?? 0) / most) * (height - 3)));
  context.lineTo(width, height);
  context.fillStyle = `${color('accent')}40`;
  context.fill();
  context.strokeStyle = color('accent');
  context.stroke();
  return canvas;
}

/** Bars with their figures: {x: [text..], values, unit}. */
export function bars({ x, values, unit, name }) {
  const most = Math.max(0, ...values);
  return h('div', { class: 'bars', role: 'img', 'aria-label': name },
    x.map((text, i) => h('div', { class: 'bar-row' },
      h('span', { class: 'bar-name' }, text),
      h('span', { class: 'bar-track' }, h('span', { class: 'bar-fill', style: { width: `${most > 0 ? (100 * values[i]) / most : 0}%` } })),
      h('span', { class: 'bar-figure' }, figure(values[i], unit)))));
}

/**
 * values[row][column] over x and y texts, on a logarithmic scale of colour; figures: written into
 * the cells where there are few.
 */
export function heatMap({ id, name, term: explained, x, y, values, unit = 'count', xName = '', yName = '', figures = false }) {
  const left = Math.max(74, ...y.map((text) => 8 + 6.2 * text.length));
  const bottom = 34;
  const written = figures && x.length <= 12;
  const cell = Math.max(5, Math.min(written ? 140 : 26, Math.floor(840 / Math.max(1, x.length))));
  const tall = 18;
  const canvas = h('canvas', { class: 'heat', role: 'img', 'aria-label': name });
  const told = h('div', { class: 'heat-told' }, ' ');
  const most = Math.max(1, ...values.flat());
  const width = left + cell * x.length + 4;
  const height = tall * y.length + bottom;
  const paint = () => {
    const context = sharpen(canvas, width, height);
    context.clearRect(0, 0, width, height);
    context.font = '11px sans-serif';
    values.forEach((row, r) => row.forEach((value, c) => {
      context.fillStyle = color('grid');
      if (value > 0) context.fillStyle = `hsl(${color('heat-hue')} 70% ${80 - 55 * (Math.log1p(value) / Math.log1p(most))}%)`;
      context.fillRect(left + c * cell, (y.length - 1 - r) * tall, cell - 1, tall - 1);
      if (!written || value === 0) return;
      context.fillStyle = Math.log1p(value) / Math.log1p(most) > 0.6 ? '#fff' : '#111';
      context.textAlign = 'center';
      context.fillText(figure(value, unit), left + (c + 0.5) * cell, (y.length - 1 - r) * tall + 13);
    }));
    context.fillStyle = color('ink-quiet');
    context.textAlign = 'right';
    y.forEach((text, r) => context.fillText(text, left - 6, (y.length - 1 - r) * tall + 13));
    context.textAlign = 'left';
    const longest = Math.max(1, ...x.map((text) => text.length));
    const every = Math.max(1, Math.ceil((6.4 * longest + 8) / cell));
    x.forEach((text, c) => c % every === 0 && context.fillText(text, left + c * cell, tall * y.length + 14));
    context.fillText(xName, left, tall * y.length + 29);
  };
  canvas.addEventListener('pointermove', (event) => {
    const c = Math.floor((event.offsetX - left) / cell);
    const r = y.length - 1 - Math.floor(event.offsetY / tall);
    const value = values[r]?.[c];
    told.textContent = value === undefined ? ' ' : `${yName} ${y[r]}, ${xName} ${x[c]}: ${figure(value, unit)}`;
  });
  requestAnimationFrame(paint);
  return h('figure', { 'data-heat': id ?? null }, h('figcaption', {}, explained ? term(explained, name) : name), canvas, told);
}
