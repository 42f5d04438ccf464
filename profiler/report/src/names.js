// names.js - long names of C++ and Rust, made short as `numalloc-dump` makes them in text: without
// return type and parameters, then with <…> for template arguments; what still has no room is cut in
// what the function lies in, and never in the function's own name if that has room.
import { h } from './dom.js';

const FOLDED_FROM = 40; // characters
const LONGEST = 4096; // of a name that is looked at: some of it takes the square of that
const NAMELESS = '(anonymous namespace)';

/** A bracket that closes: not in an arrow, as Rust's types of functions have it. */
function closes(name, i) {
  return name[i] === '}' || (name[i] === '>' && name[i - 1] !== '-');
}

/** Where parameters end that begin at i, with what is said behind them; 0: nowhere. */
function afterParameters(name, i) {
  let depth = 0;
  for (; i < name.length; i++) {
    if (name[i] === '(') depth++;
    else if (name[i] === ')' && --depth === 0) return i + 1 + name.slice(i + 1).match(/^( const)?( volatile)?( &&?)?/)[0].length;
  }
  return 0;
}

/** From where to where a name goes: name_range of demangle.c. */
function range(name) {
  let start = 0;
  let depth = 0;
  for (let i = 0; i < name.length; i++) {
    const c = name[i];
    if (depth === 0 && name.startsWith('operator', i)) {
      const rest = name.slice(i + 8).match(/^(\(\))?((?! <)[^(])*/)[0];
      return [start, i + 8 + rest.length];
    }
    if (name.startsWith(NAMELESS, i)) i += NAMELESS.length - 1;
    else if (c === '<' || c === '{') depth++;
    else if (depth > 0 && closes(name, i)) depth--;
    else if (depth === 0 && c === ' ') start = i + 1;
    else if (depth === 0 && c === '(') {
      const after = afterParameters(name, i);
      if (after === 0 || !name.startsWith('::', after)) return [start, i];
      i = after - 1;
    }
  }
  return [0, name.length]; // no parameters: a C name, or one without a return type
}

/** Template arguments as <…>, parameters as (…); those of Rust's "<Type as Trait>::method" are the name. */
function fold(name) {
  let most = name[0] === '<' ? 1 : 0;
  let depth = 0;
  let folded = '';
  for (let i = 0; i < name.length; i++) {
    const c = name[i];
    const after = c === '(' && depth === 0 && !name.startsWith(NAMELESS, i) ? afterParameters(name, i) : 0;
    if (after > i + 2) {
      folded += '(…)';
      i = after - 1;
    } else if (c === '<' && depth++ === most) folded += '<…>';
    else if (c === '>' && depth > 0 && closes(name, i)) {
      if (--depth < most) {
        most = 0;
        folded += c;
      }
    } else if (depth <= most) folded += c;
  }
  return folded;
}

const known = new Map();

/** [what the function lies in, with the last "::"; its own name] */
function parts(name) {
  let found = known.get(name);
  if (found !== undefined) return found;
  const [from, to] = name.length > LONGEST ? [0, 0] : range(name);
  let short = from < to ? name.slice(from, to) : name;
  if (short.length > FOLDED_FROM && short.length <= LONGEST) short = fold(short);
  let own = 0;
  let depth = 0;
  for (let i = 0; i < short.length; i++) {
    if (depth === 0 && short.startsWith('operator', i)) break;
    if ('<({'.includes(short[i])) depth++;
    else if (depth > 0 && (short[i] === ')' || closes(short, i))) depth--;
    else if (depth === 0 && short.startsWith('::', i) && short[i + 2] !== '<') own = i + 2; // "fold::<u8>" is Rust's fold
  }
  found = [short.slice(0, own), short.slice(own)];
  known.set(name, found);
  return found;
}

/** Short, of as many characters as it has. */
export function brief(name) {
  return name.split(' → ').map((each) => parts(each).join('')).join(' → ');
}

function middle(text, room) {
  const end = Math.floor((room - 1) / 2);
  return text.length <= room ? text : `${text.slice(0, room - 1 - end)}…${end > 0 ? text.slice(-end) : ''}`;
}

/** At most so many characters of it. */
export function cutTo(name, room) {
  if (name.length <= room) return name;
  const [scope, own] = parts(name);
  if (scope.length + own.length <= room) return scope + own;
  const left = room - own.length - 1;
  return left > 0 ? `${scope.slice(0, left)}…${own}` : middle(own, Math.max(1, room));
}

/** For a cell or a line: short, the whole in the tooltip; where there is no room, the style sheet cuts the scope. */
export function nameOf(name, added = '') {
  const callers = name.split(' → ');
  const [scope, last] = parts(callers.pop());
  const own = last + added;
  const before = callers.map((each) => `${parts(each).join('')} → `).join('') + scope;
  if (before === '') return last === name ? own : h('span', { title: name }, own);
  return h('span', { title: name }, h('span', { class: 'scope', style: { maxWidth: `calc(100% - ${own.length}ch)` } }, before), own);
}

/**
 * What legends and rows add to their names: to those of `all` that are alike their hints, as many as tell them
 * apart, and a number where none does. all: [{name, hints() -> [text or ''..]}..]
 */
export function tellApart(all) {
  const texts = all.map(() => '');
  const alike = new Map();
  all.forEach(({ name }, i) => {
    const found = alike.get(brief(name));
    if (found) found.push(i);
    else alike.set(brief(name), [i]);
  });
  for (const same of alike.values()) {
    if (same.length < 2) continue;
    const hints = new Map(same.map((i) => [i, all[i].hints()]));
    const kinds = (of) => new Set(same.map(of)).size;
    let told = () => '';
    for (let hint = 0; hint < hints.get(same[0]).length && kinds(told) < same.length; hint++) {
      const before = told;
      if (kinds((i) => hints.get(i)[hint]) > 1) told = (i) => [before(i), hints.get(i)[hint]].filter(Boolean).join(', ');
    }
    const seen = new Map();
    for (const i of same) {
      const text = told(i);
      seen.set(text, (seen.get(text) ?? 0) + 1);
      texts[i] = `${text === '' ? '' : ` (${text})`}${seen.get(text) > 1 ? ` #${seen.get(text)}` : ''}`;
    }
  }
  return texts;
}
