// flow.js - one object's flow: who touched it when, from where, reading or writing.
import { color, h, sharpen } from '../dom.js';
import { count, milliseconds, percent } from '../format.js';
import { change, link } from '../state.js';
import { facts, rangeChip, siteLink } from '../controls.js';
import { TERMS, term } from '../terms.js';
import { estimated, sized, verdict } from './numa.js';

const ROW = 22;
const MOST_THREADS = 40;

export function flow(model, state) {
  const { access } = model.raw;
  if (!access.flows || access.flows.length === 0) return h('p', { class: 'note' }, 'No object has samples.');
  const chosen = Math.min(access.flows.length - 1, Math.max(0, Number(state.flow ?? 0) || 0));
  const of = access.flows[chosen];
  const judged = access.verdicts.filter((v) => v.flow === chosen);
  const called = of.functions.some(([, , , caller]) => caller);
  return h('div', {}, rangeChip(model, state, { whole: true }),
    h('div', { class: 'bar-controls' }, h('label', {}, term('origin', 'Object'), ' ',
      h('select', { id: 'flow', onchange: (event) => change({ flow: event.target.value }) },
        access.flows.map((each, i) => h('option', { value: i, selected: i === chosen }, each.name)))),
    h('a', { href: link('numa') }, 'All objects')),
    h('h3', {}, of.name),
    facts([['Kind', of.kind], ['Size', sized(of)],
      of.maker && ['Made by', `${of.maker}${of.node === null ? '' : ` on node ${of.node}`}`],
      ['Lived', `from ${milliseconds(of.birth_ms)} to ${of.end_ms === null ? 'the end' : milliseconds(of.end_ms)}`],
      of.site >= 0 && ['Where', siteLink(model, of.site)],
      ['Samples', `${count(of.samples)}${of.every > 1 ? `, one in ${of.every} is drawn` : ''}`],
      of.estimate && [term('estimate', 'Accesses (95 %)'), estimated(of.estimate)]].filter(Boolean)),
    h('h3', {}, term('flow', 'Accesses by thread over time')), drawing(access, of),
    judged.length > 0 && [h('h3', {}, term('verdict', 'Verdict')), judged.map((v) => verdict(model, v))],
    of.functions.length > 0 && [h('h3', {}, called ? 'Functions that touch it, and those that call them' : 'Functions that touch it'), h('table', { class: 'plain', id: 'touchers' },
      h('tr', {}, ['function', 'of its accesses', ...called ? ['with all that it calls'] : [], 'remote', ...called ? ['mostly called by'] : []].map((name) => h('th', {}, name))),
      of.functions.map(([name, share, remote, caller, inclusive]) => h('tr', {}, [name, percent(share, 1), ...called ? [percent(inclusive, 1)] : [], remote === null ? '–' : percent(remote, 1), ...called ? [caller || '–'] : []].map((cell) => h('td', {}, cell)))))]);
}

const OPS = ['access', 'read', 'write', 'read and write'];

function drawing(access, { events, birth_ms: birth, end_ms: end }) {
  const counts = new Map();
  events.thread.forEach((t) => counts.set(t, (counts.get(t) ?? 0) + 1));
  const most = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, MOST_THREADS);
  const first = new Map();
  events.thread.forEach((t, i) => first.has(t) || first.set(t, events.ms[i]));
  const threads = most.sort((a, b) => first.get(a) - first.get(b));
  const row = new Map(threads.map((t, i) => [t, i]));
  const from = Math.min(birth > 0 ? birth : events.ms[0], events.ms[0]);
  const upto = Math.max(events.ms.at(-1), from + 1e-3);
  const left = Math.max(90, ...threads.map((t) => 10 + 6.3 * access.threads[t].length));
  const canvas = h('canvas', { class: 'flame', role: 'img', id: 'flow-drawing', 'aria-label': `accesses of ${threads.length} threads over time` });
  const told = h('div', { class: 'heat-told', 'aria-live': 'polite' }, ' ');
  const element = h('div', {}, told, canvas,
    h('p', { class: 'legend' }, h('i', { style: { background: color('c1') } }), 'local', h('i', { style: { background: color('c2') } }), 'another node\'s memory', h('i', { style: { background: color('c8') } }), 'nodes not known', '  ■ write  ● read  ◦ either'));
  const at = (ms) => left + ((ms - from) / (upto - from)) * ((element.clientWidth || 900) - left - 10);
  const tall = threads.length * ROW + 24;
  const paint = () => {
    const wide = element.clientWidth || 900;
    const context = sharpen(canvas, wide, tall);
    context.clearRect(0, 0, wide, tall);
    context.font = '11px sans-serif';
    threads.forEach((t, i) => {
      context.fillStyle = color('ink-quiet');
      context.textAlign = 'right';
      context.fillText(access.threads[t], left - 8, i * ROW + 15);
      context.fillStyle = color('grid');
      context.fillRect(left, (i + 1) * ROW - 1, wide - left - 10, 1);
    });
    const paints = { local: color('c1'), remote: color('c2'), unknown: color('c8') };
    events.ms.forEach((ms, i) => {
      const y = row.get(events.thread[i]);
      if (y === undefined) return;
      context.fillStyle = context.strokeStyle = paints[relation(events, i)];
      const x = at(ms);
      const middle = y * ROW + ROW / 2;
      if (events.op[i] & 2) context.fillRect(x - 3, middle - 3, 6, 6);
      else {
        context.beginPath();
        context.arc(x, middle, 3, 0, 7);
        if (events.op[i] === 0) context.stroke();
        else context.fill();
      }
    });
    context.strokeStyle = color('warning');
    context.fillStyle = color('ink-quiet');
    context.setLineDash([4, 3]);
    [[birth, 'made'], [end, 'freed']].forEach(([ms, name]) => {
      if (ms === null || ms < from || ms > upto) return;
      context.beginPath();
      context.moveTo(at(ms), 0);
      context.lineTo(at(ms), tall - 20);
      context.stroke();
      context.textAlign = name === 'made' ? 'left' : 'right';
      context.fillText(name, at(ms) + (name === 'made' ? 3 : -3), tall - 22);
    });
    context.setLineDash([]);
    context.textAlign = 'center';
    const ticks = Math.max(1, Math.min(6, Math.floor((wide - left) / 80)));
    for (let i = 0; i <= ticks; i++) {
      const ms = from + ((upto - from) * i) / ticks;
      context.fillText(milliseconds(Math.round(ms * 10) / 10), Math.min(at(ms), wide - 30), tall - 6);
    }
  };
  canvas.addEventListener('pointermove', (event) => {
    const thread = threads[Math.floor(event.offsetY / ROW)];
    let near = -1;
    events.ms.forEach((ms, i) => {
      if (events.thread[i] === thread && (near < 0 || Math.abs(at(ms) - event.offsetX) < Math.abs(at(events.ms[near]) - event.offsetX))) near = i;
    });
    told.textContent = near < 0 ? ' ' : `${milliseconds(events.ms[near])}: ${OPS[events.op[near]]} by ${access.threads[thread]} from node ${events.from[near] < 0 ? '?' : events.from[near]} to node ${events.home[near] < 0 ? '?' : events.home[near]}${events.latency[near] < 0 ? '' : `, ${events.latency[near]} cycles`}`;
  });
  new ResizeObserver(paint).observe(element);
  return [element, counts.size > threads.length && h('p', { class: 'quiet', 'data-tip': TERMS.flow }, `${counts.size - threads.length} threads with fewer accesses are not drawn.`)];
}

function relation(events, i) {
  if (events.from[i] < 0 || events.home[i] < 0) return 'unknown';
  return events.from[i] === events.home[i] ? 'local' : 'remote';
}
