// charts.js - lines over time (uPlot), bars and heat maps (canvas).
import uPlot from 'uplot';
import { h, sharpen, color } from './dom.js';
import { bytes, count, figure, milliseconds } from './format.js';
import { term } from './terms.js';

const PALETTE = ['c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8'];

/** Steps of an axis of bytes: 1, 2, 4, .. so that its figures are round in KiB and MiB. */
const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i);

export function palette(index) {
  return color(PALETTE[index % PALETTE.length]);
}

/**
 * Lines over time. series: [{name, unit, values, fill, hidden}..] of one interval each; stacked:
 * drawn on each other, the first at the bottom. onBrush([from ms, to ms] or null), onClick(ms).
 */
export function timeChart({ interval, series, stacked = false, markers = [], range, width, height = 260, onBrush, onClick }) {
  const points = Math.max(0, ...series.map((s) => s.values.length));
  const x = Array.from({ length: points }, (_, i) => (i * interval) / 1000);
  const drawn = series.map((s) => s.values.slice());
  if (stacked)
    for (let i = 1; i < drawn.length; i++)
      for (let p = 0; p < points; p++) drawn[i][p] = (drawn[i][p] ?? 0) + (drawn[i - 1][p] ?? 0);
  const unit = series[0]?.unit ?? 'bytes';
  const written = unit === 'bytes' ? bytes : count;
  const ink = color('ink-quiet');
  const grid = { stroke: color('grid'), width: 1 };
  const axes = [
    { stroke: ink, grid, ticks: grid, values: (_, ticks) => ticks.map((t) => milliseconds(t * 1000)) },
    { stroke: ink, grid, ticks: grid, size: 76, incrs: unit === 'bytes' ? POWERS : undefined, values: (_, ticks) => ticks.map((t) => (t === null ? '' : written(t))) },
  ];
  // The upper ones of a stack first, so that the lower ones are drawn over them.
  const ordered = series.map((_, i) => i);
  if (stacked) ordered.reverse();
  const lines = ordered.map((i) => ({
    label: series[i].name, stroke: palette(i), width: stacked ? 1 : 1.5, show: !series[i].hidden,
    fill: stacked ? palette(i) : series[i].fill ? `${palette(i)}30` : undefined,
    points: { show: points < 3 }, spanGaps: true,
    value: (_, __, ___, at) => (at === null || at === undefined ? '–' : figure(series[i].values[at], series[i].unit)),
  }));
  const element = h('div', { class: 'chart' });
  let pressed = null;
  const chart = new uPlot({
    width: width ?? 900, height, axes,
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    legend: { live: true },
    scales: { x: { time: false, range: (_, low, high) => [low, high > low ? high : low + 1] }, y: { range: (_, __, high) => [0, (high || 1) * 1.05] } },
    series: [{ label: 'time', value: (_, t) => (t === null ? '–' : milliseconds(t * 1000)) }, ...lines],
    hooks: {
      setSelect: [(u) => {
        const { left, width: wide } = u.select;
        if (wide < 3) return;
        onBrush?.([Math.max(0, Math.round(u.posToVal(left, 'x') * 1000)), Math.round(u.posToVal(left + wide, 'x') * 1000)]);
      }],
      draw: [(u) => {
        const { ctx, bbox } = u;
        ctx.save();
        if (range) {
          const from = u.valToPos(range[0] / 1000, 'x', true);
          const to = u.valToPos(range[1] / 1000, 'x', true);
          ctx.fillStyle = `${color('accent')}22`;
          ctx.fillRect(from, bbox.top, to - from, bbox.height);
        }
        ctx.strokeStyle = color('warning');
        ctx.fillStyle = color('ink');
        ctx.font = `${11 * devicePixelRatio}px sans-serif`;
        ctx.textAlign = 'left';
        for (const [ms, name] of markers) {
          const at = u.valToPos(ms / 1000, 'x', true);
          ctx.beginPath();
          ctx.setLineDash([4, 3]);
          ctx.moveTo(at, bbox.top);
          ctx.lineTo(at, bbox.top + bbox.height);
          ctx.stroke();
          ctx.fillText(name, at + 4, bbox.top + 12 * devicePixelRatio);
        }
        ctx.restore();
      }],
      ready: [(u) => {
        u.over.addEventListener('pointerdown', (event) => (pressed = event.clientX));
        u.over.addEventListener('pointerup', (event) => {
          if (pressed !== null && Math.abs(event.clientX - pressed) < 3)
            onClick?.(u.posToVal(u.cursor.left, 'x') * 1000);
          pressed = null;
        });
      }],
    },
  }, [x, ...ordered.map((i) => drawn[i])], element);
  new ResizeObserver(() => {
    const wide = element.parentElement?.clientWidth;
    if (wide && Math.abs(wide - chart.width) > 2) chart.setSize({ width: wide, height });
  }).observe(element);
  return element;
}

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
