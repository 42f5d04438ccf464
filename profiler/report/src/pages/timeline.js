// timeline.js - memory over time. Brushing sets the range for every page; a click on a jump lists
// the sites that grew there.
import { h, replace } from '../dom.js';
import { milliseconds } from '../format.js';
import { change, link } from '../state.js';
import { absent, rangeChip, siteHints, siteLink } from '../controls.js';
import { brief, tellApart } from '../names.js';
import { timeChart } from '../timechart.js';
import { table } from '../table.js';

const STACKED = 7; // sites of their own colour; the others together

export function timeline(model, state) {
  const { timeline: line, growth } = model.raw;
  if (!line) return absent('A timeline', 'Every mode records one; this profile ended before its first point.');
  const brush = (range) => change({ range: range.join(',') });
  const shown = h('div', {});
  const groups = [['Memory', 'bytes'], ['Blocks, threads and rates', 'count']];
  return h('div', {},
    h('div', { class: 'bar-controls' }, rangeChip(model, state) ?? h('span', { class: 'quiet' }, 'Drag over a stretch of time to look at it alone; click a jump to see what grew.')),
    groups.map(([title, unit]) => {
      const series = line.series.filter((s) => s.unit === unit);
      if (series.length === 0) return null;
      return [h('h3', {}, title), timeChart({
        interval: line.interval_ms, range: state.range, markers: unit === 'bytes' ? [...(line.markers ?? []), ...(line.peak_ms === undefined ? [] : [[line.peak_ms, 'peak']])] : [],
        series: series.map((s, i) => ({ ...s, fill: i === 0 })), onBrush: brush, onClick: (ms) => grew(ms),
      })];
    }),
    growth && [h('h3', {}, 'Live bytes by site'), stacked(model, state, brush, grew)],
    shown);

  function grew(ms) {
    if (!growth) {
      replace(shown, absent('What grew at a moment', 'It needs the series of sites, which modes sites and trace record.'));
      return;
    }
    const step = growth.interval_ms;
    const at = Math.max(0, Math.floor(ms / step));
    const span = [Math.max(0, at - 1) * step, (at + 2) * step];
    const values = model.values('range-grown', span);
    const rows = [...model.sites.node.keys()].filter((site) => values[site] !== 0);
    replace(shown, h('h3', {}, `What changed between ${milliseconds(span[0])} and ${milliseconds(span[1])}`), table({
      label: 'sites that grew', rows, height: 320, sort: { id: 'grown', down: true },
      columns: [
        { id: 'grown', name: 'grown by', unit: 'bytes', value: (site) => values[site], width: '8rem' },
        { id: 'site', name: 'site', value: (site) => model.siteName(site), cell: (site) => siteLink(model, site), width: '2fr' },
        { id: 'stack', name: 'called by', value: (site) => path(model, site), width: '4fr' },
      ],
      onOpen: (site) => (location.hash = link('site', { id: model.sites.id[site] })),
    }).element);
    shown.scrollIntoView({ behavior: 'smooth', block: 'nearest' });
  }
}

function path(model, site) {
  return model.stack(site).filter((frame) => !model.isRuntime(frame)).slice(1, 6).map((frame) => brief(model.frameName(frame))).join(' ← ');
}

function stacked(model, state, onBrush, onClick) {
  const { growth } = model.raw;
  const length = growth.live[0]?.length ?? 0;
  const order = [...growth.site.keys()].sort((a, b) => Math.max(0, ...growth.live[b]) - Math.max(0, ...growth.live[a]));
  const first = order.slice(0, STACKED).map((i) => growth.site[i]);
  const apart = tellApart(first.map((site) => ({ name: model.siteName(site), hints: () => siteHints(model, site) })));
  const series = first.map((site, i) => ({ name: brief(model.siteName(site)) + apart[i], title: model.siteName(site), unit: 'bytes', values: growth.live[order[i]] }));
  const others = new Array(length).fill(0);
  for (const i of order.slice(STACKED)) growth.live[i].forEach((value, t) => (others[t] += Math.max(0, value ?? 0)));
  if (order.length > STACKED) series.push({ name: `${order.length - STACKED} other sites`, unit: 'bytes', values: others });
  return h('div', {}, timeChart({ interval: growth.interval_ms, range: state.range, series, stacked: true, height: 300, onBrush, onClick }),
    h('p', { class: 'quiet' }, growth.exact ? 'From a trace: exact.' : 'From the series that are kept of the largest sites: others are not drawn.'));
}

/** For a site's own page. */
export function siteTimeline(model, site, state) {
  const { growth } = model.raw;
  const at = growth ? growth.site.indexOf(site) : -1;
  if (at < 0) return null;
  return timeChart({
    interval: growth.interval_ms, range: state.range, height: 180,
    series: [{ name: 'live', unit: 'bytes', values: growth.live[at], fill: true },
      ...(growth.alloc ? [{ name: 'allocated', unit: 'bytes', values: growth.alloc[at], hidden: true }] : [])],
    onBrush: (range) => change({ range: range.join(',') }),
  });
}
