// controls.js - what pages have in common: the choice of metric, the range of time, site links.
import { h } from './dom.js';
import { baseName, figure, milliseconds, percent } from './format.js';
import { brief, nameOf } from './names.js';
import { change, link } from './state.js';
import { term } from './terms.js';

/** The metric in force and the select that changes it; `tree`: only metrics that may be summed. */
export function metricChoice(model, state, { tree = false } = {}) {
  const offered = model.metricsOf(state.range).filter((metric) => !tree || metric.tree);
  const metric = offered.find((m) => m.id === state.metric) ?? offered[0];
  const element = h('label', {}, term(metric.term, 'Metric'), ' ',
    h('select', { id: 'metric', onchange: (event) => change({ metric: event.target.value }) },
      offered.map((m) => h('option', { value: m.id, selected: m === metric }, m.name))));
  return { metric, element };
}

/** Says which range is in force and how to leave it; nothing without one. */
export function rangeChip(model, state, { whole = false } = {}) {
  if (!state.range) return null;
  const text = `${milliseconds(state.range[0])} to ${milliseconds(state.range[1])}`;
  if (whole) return h('span', { class: 'note' }, `This page shows the whole run, not ${text}.`);
  const kind = !model.raw.growth ? null : model.raw.growth.exact ? ', exact' : `, from the series of the ${model.raw.growth.site.length} largest sites`;
  return h('span', { class: 'note' }, `Range ${text}${kind ?? ''} `,
    h('button', { onclick: () => change({ range: null }) }, 'Whole run'));
}

export function siteLink(model, site) {
  const id = model.sites.id[site];
  const name = model.siteName(site);
  return id === 0 ? name : h('a', { href: link('site', { id }) }, nameOf(name));
}

/** What tells sites of one function apart: the line, who called it, the library. */
export function siteHints(model, site) {
  const by = model.sites.by[site];
  if (by < 0 || model.sites.id[site] === 0) return ['', '', ''];
  const place = model.place(by);
  const stack = model.stack(site);
  const own = model.functionOf(by);
  const caller = stack.slice(stack.indexOf(by)).find((frame) => model.functionOf(frame) !== own && model.raw.functions.named[model.functionOf(frame)] && !model.isRuntime(frame));
  return [place ? `${baseName(place.path)}:${place.line}` : '', caller === undefined ? '' : `from ${brief(model.frameName(caller))}`, baseName(model.frameModule(by))];
}

/** How many memory errors are in blocks of the site; null: none that is known. */
export function errorMark(model, site) {
  const found = model.errorsOf(site).length;
  if (found === 0) return null;
  return h('a', { class: 'mark-error', href: link('site', { id: model.sites.id[site] }), title: 'memory errors in blocks of this site' }, `${found} error${found === 1 ? '' : 's'}`);
}

/** A link to a line of the source, or its name alone where the text is not in the page. */
export function placeLink(model, frame) {
  const place = model.place(frame);
  if (!place) return h('span', { class: 'quiet', title: model.frameModule(frame) }, baseName(model.frameModule(frame)));
  const short = `${baseName(place.path)}:${place.line}`;
  if (!model.raw.sources?.[place.file]) return h('span', { title: place.path }, short);
  return h('a', { href: link('source', { file: place.file, line: place.line }), title: place.path }, short);
}

export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
}

/** A line that unfolds to what is behind it; links in the line are links. */
export function unfolding(attributes, line, content, open = false) {
  const body = h('div', { hidden: !open }, content);
  const twist = h('button', { class: 'twist', 'aria-expanded': String(open), 'aria-label': 'more' }, open ? '▾' : '▸');
  const toggle = (event) => {
    if (event.target.closest('a')) return;
    body.hidden = !body.hidden;
    twist.setAttribute('aria-expanded', String(!body.hidden));
    twist.textContent = body.hidden ? '▸' : '▾';
  };
  return h('div', attributes, h('div', { class: 'line', onclick: toggle }, twist, h('span', {}, line)), body);
}

export function shareOf(value, total, unit) {
  return `${figure(value, unit)} (${percent(value, total)})`;
}

/** What a page says where the profile has not what it shows. */
export function absent(what, mode) {
  return h('p', { class: 'note' }, `${what} is not in this profile. ${mode}`);
}
