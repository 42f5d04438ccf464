// timechart.js - lines over time on a canvas, with axes, markers, and a legend that has the figures
// under the pointer.
import { h, replace, sharpen, color } from './dom.js';
import { bytes, count, figure, milliseconds } from './format.js';

const PALETTE = ['c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8'];
const ROOM = { left: 76, right: 12, top: 8, bottom: 24 }; // around the lines, in pixels
const CLICK = 3; // pixels: a shorter way of the pointer is a click and no brush
const MINUTE = 60000;
const LONG_STEPS = [30000, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 30 * MINUTE, 60 * MINUTE];

export function palette(index) {
  return color(PALETTE[index % PALETTE.length]);
}

/** The least step of 1, 2 or 5 times a power of ten, by which at most `most` fit into `span`. */
function decimalStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return power * [1, 2, 5, 10].find((times) => (times * power * most) / span >= 0.999);
}

/** Figures on an axis from 0 to `high`: round in its unit (bytes in powers of two, ms as a clock). */
function ticks(high, unit, most) {
  let step = decimalStep(high, most);
  if (unit === 'bytes') step = 2 ** Math.ceil(Math.log2(Math.max(1, high / most)));
  if (unit === 'count') step = Math.max(1, step);
  if (unit === 'ms' && step > 10000) step = LONG_STEPS.find((each) => each * most >= high) ?? 60 * MINUTE * Math.ceil(high / most / (60 * MINUTE));
  return Array.from({ length: Math.floor(high / step + 1e-6) + 1 }, (_, i) => i * step);
}

/** What each line is drawn at: its values, or, stacked, those on top of the shown ones before it. */
function levels(series, shown, stacked, points) {
  if (!stacked) return series.map((each) => each.values);
  const sum = new Array(points).fill(0);
  return series.map(({ values }, i) => {
    if (shown[i]) values.forEach((value, p) => (sum[p] += Math.max(0, value ?? 0)));
    return sum.slice();
  });
}

/**
 * series: [{name, title, unit, values, fill, hidden}..], a value (or null: not known) each interval of ms;
 * stacked: drawn on each other, the first at the bottom; markers: [[ms, name]..]; range: [from ms, to
 * ms], shaded. onBrush([from ms, to ms]), onClick(ms).
 */
export function timeChart({ interval, series, stacked = false, markers = [], range, height = 260, onBrush, onClick }) {
  const points = Math.max(0, ...series.map((s) => s.values.length));
  const end = Math.max(1, points - 1) * interval;
  const unit = series[0]?.unit ?? 'bytes';
  const shown = series.map((s) => !s.hidden);
  const canvas = h('canvas', { role: 'img', 'aria-label': series.map((s) => s.name).join(', ') });
  const brushed = h('div', { class: 'chart-brush', hidden: true });
  const cursor = h('div', { class: 'chart-cursor', hidden: true });
  const plot = h('div', { class: 'chart-plot' }, cursor, brushed);
  const legend = h('div', { class: 'chart-legend' });
  const element = h('div', { class: 'chart' }, h('div', { class: 'chart-box', style: { height: `${height}px` } }, canvas, plot), legend);
  let inner = { width: 1, height: 1 };
  let pressed = null;

  const across = (ms) => ROOM.left + (ms / end) * inner.width;
  const timeAt = (event) => {
    const x = Math.min(inner.width, Math.max(0, event.clientX - plot.getBoundingClientRect().left));
    return { x, ms: (x / inner.width) * end };
  };

  function paint() {
    const width = element.clientWidth;
    if (width === 0) return;
    inner = { width: Math.max(1, width - ROOM.left - ROOM.right), height: height - ROOM.top - ROOM.bottom };
    Object.assign(plot.style, { left: `${ROOM.left}px`, top: `${ROOM.top}px`, width: `${inner.width}px`, height: `${inner.height}px` });
    const context = sharpen(canvas, width, height);
    const drawn = levels(series, shown, stacked, points);
    let most = 0;
    drawn.forEach((values, i) => shown[i] && values.forEach((value) => (most = Math.max(most, value ?? 0))));
    const high = (most || 1) * 1.05;
    const up = (value) => ROOM.top + inner.height * (1 - value / high);
    context.clearRect(0, 0, width, height);
    paintAxes(context, high, up);
    // The upper ones of a stack first, so that the lower ones are drawn over them.
    const order = series.map((_, i) => i).filter((i) => shown[i]);
    if (stacked) order.reverse();
    for (const i of order) paintLine(context, drawn[i], up, palette(i), stacked ? palette(i) : series[i].fill && `${palette(i)}30`);
    paintMarks(context);
  }

  function paintAxes(context, high, up) {
    context.font = '11px sans-serif';
    context.lineWidth = 1;
    context.strokeStyle = color('grid');
    context.fillStyle = color('ink-quiet');
    context.beginPath();
    context.textAlign = 'right';
    for (const value of ticks(high, unit, Math.max(2, Math.floor(inner.height / 36)))) {
      const y = Math.round(up(value)) + 0.5;
      context.moveTo(ROOM.left, y);
      context.lineTo(ROOM.left + inner.width, y);
      context.fillText(unit === 'bytes' ? bytes(value) : count(value), ROOM.left - 6, y + 4);
    }
    context.textAlign = 'center';
    for (const ms of ticks(end, 'ms', Math.max(2, Math.floor(inner.width / 90)))) {
      const x = Math.round(across(ms)) + 0.5;
      context.moveTo(x, ROOM.top);
      context.lineTo(x, ROOM.top + inner.height);
      context.fillText(milliseconds(ms), x, height - 8);
    }
    context.stroke();
  }

  /** A line through the values that are known, filled down to 0 if there is a colour for it. */
  function paintLine(context, values, up, stroke, fill) {
    const known = [...values.keys()].filter((p) => values[p] !== null && values[p] !== undefined);
    if (known.length === 0) return;
    const line = new Path2D();
    known.forEach((p) => line.lineTo(across(p * interval), up(values[p])));
    if (fill) {
      const area = new Path2D(line);
      area.lineTo(across(known[known.length - 1] * interval), up(0));
      area.lineTo(across(known[0] * interval), up(0));
      context.fillStyle = fill;
      context.fill(area);
    }
    context.strokeStyle = context.fillStyle = stroke;
    context.lineWidth = stacked ? 1 : 1.5;
    context.stroke(line);
    if (known.length < 3) known.forEach((p) => context.fillRect(across(p * interval) - 2, up(values[p]) - 2, 4, 4));
  }

  function paintMarks(context) {
    if (range) {
      context.fillStyle = `${color('accent')}22`;
      context.fillRect(across(range[0]), ROOM.top, across(range[1]) - across(range[0]), inner.height);
    }
    context.lineWidth = 1;
    context.strokeStyle = color('warning');
    context.fillStyle = color('ink');
    context.setLineDash([4, 3]);
    for (const [ms, name] of markers) {
      const x = across(ms);
      const right = x > ROOM.left + 0.8 * inner.width;
      context.beginPath();
      context.moveTo(x, ROOM.top);
      context.lineTo(x, ROOM.top + inner.height);
      context.stroke();
      context.textAlign = right ? 'right' : 'left';
      context.fillText(name, x + (right ? -4 : 4), ROOM.top + 12);
    }
    context.setLineDash([]);
  }

  /** The lines with their figures at a point in time (null: the pointer is elsewhere). */
  function tell(at) {
    replace(legend, h('span', {}, `time: ${at === null ? '–' : milliseconds(at * interval)}`),
      series.map((each, i) => h('button', {
        class: 'quiet', 'aria-pressed': String(shown[i]), title: `${each.title ? `${each.title}: ` : ''}show or hide`,
        onclick: () => {
          shown[i] = !shown[i];
          tell(null);
          paint();
        },
      }, h('i', { style: { background: palette(i) } }), `${each.name}: ${at === null ? '–' : figure(each.values[at], each.unit)}`)));
  }

  plot.addEventListener('pointerdown', (event) => {
    pressed = timeAt(event);
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener('pointermove', (event) => {
    const at = timeAt(event);
    cursor.hidden = false;
    cursor.style.left = `${at.x}px`;
    tell(Math.min(Math.max(0, points - 1), Math.round(at.ms / interval)));
    brushed.hidden = pressed === null || Math.abs(at.x - pressed.x) < CLICK;
    if (brushed.hidden) return;
    brushed.style.left = `${Math.min(at.x, pressed.x)}px`;
    brushed.style.width = `${Math.abs(at.x - pressed.x)}px`;
  });
  plot.addEventListener('pointerup', (event) => {
    if (pressed === null) return;
    const from = pressed;
    const to = timeAt(event);
    pressed = null;
    brushed.hidden = true;
    if (Math.abs(to.x - from.x) < CLICK) onClick?.(to.ms);
    else onBrush?.([Math.round(Math.min(from.ms, to.ms)), Math.round(Math.max(from.ms, to.ms))]);
  });
  plot.addEventListener('pointercancel', () => {
    pressed = null;
    brushed.hidden = true;
  });
  plot.addEventListener('pointerleave', () => {
    cursor.hidden = true;
    tell(null);
  });
  tell(null);
  new ResizeObserver(paint).observe(element);
  return element;
}
