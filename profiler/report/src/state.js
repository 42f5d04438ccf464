// state.js - what is shown, kept in the URL's hash so that a link leads back to it.
//
//   #flame?metric=peak&range=120,480&search=parse
//
// The part before '?' is the page; everything else is a parameter of it. Parameters in KEPT stay
// when the page changes.

const KEPT = ['metric', 'range'];

let listener = () => {};

export function read() {
  const [page, query] = location.hash.slice(1).split('?');
  const parameters = new URLSearchParams(query ?? '');
  const state = { page: decodeURIComponent(page || 'summary') };
  for (const [name, value] of parameters) state[name] = value;
  const range = (state.range ?? '').split(',').map(Number);
  state.range = range.length === 2 && range.every(Number.isFinite) && range[0] < range[1] ? range : null;
  return state;
}

/** The address of a page with these parameters, for href. */
export function link(page, parameters = {}) {
  const now = read();
  const query = new URLSearchParams();
  for (const name of KEPT) {
    const value = name === 'range' ? now.range?.join(',') : now[name];
    if (value && !(name in parameters)) query.set(name, value);
  }
  for (const [name, value] of Object.entries(parameters))
    if (value !== null && value !== undefined && value !== '') query.set(name, value);
  const text = query.toString();
  return `#${page}${text === '' ? '' : `?${text}`}`;
}

/** Changes parameters of the page that is shown; null takes one away. */
export function change(parameters, keepHistory = false) {
  const now = read();
  const all = { ...now, range: now.range?.join(','), ...parameters };
  const page = all.page;
  delete all.page;
  const hash = link(page, { metric: null, range: null, ...all });
  if (hash === location.hash) return;
  if (keepHistory) location.hash = hash;
  else history.replaceState(null, '', hash);
  if (!keepHistory) listener();
}

/** Puts parameters into the address of the page without drawing it anew: it shows them already. */
export function note(parameters) {
  const now = read();
  const all = { ...now, range: now.range?.join(','), ...parameters };
  delete all.page;
  history.replaceState(null, '', link(now.page, { metric: null, range: null, ...all }));
}

export function start(onChange) {
  listener = onChange;
  window.addEventListener('hashchange', onChange);
}
