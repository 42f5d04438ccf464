// format.js - figures for people; the units are those of `unit` in the model's table of metrics.

const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const DECIMAL = ['', 'k', 'M', 'G', 'T'];

function digits(value) {
  const size = Math.abs(value);
  return size >= 100 || Number.isInteger(value) ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** What would be rounded up to the next unit is in that. */
function scaled(value, base, units, space) {
  let power = 0;
  while (Math.abs(value) >= base - 0.5 && power < units.length - 1) {
    value /= base;
    power++;
  }
  return digits(value) + (units[power] === '' ? '' : space + units[power]);
}

export function bytes(value) {
  return scaled(value, 1024, BINARY, ' ');
}

export function count(value) {
  return Math.abs(value) < 10000 ? digits(value) : scaled(value, 1000, DECIMAL, ' ');
}

export function milliseconds(value) {
  if (value !== 0 && Math.abs(value) < 1) return nanoseconds(value * 1e6);
  if (Math.abs(value) < 999.5) return `${digits(value)} ms`;
  if (Math.abs(value) < 120000) return `${digits(value / 1000)} s`;
  if (Math.abs(value) < 7200000) return `${Math.floor(value / 60000)} min ${Math.round((value % 60000) / 1000)} s`;
  return `${Math.floor(value / 3600000)} h ${Math.round((value % 3600000) / 60000)} min`;
}

export function percent(part, whole) {
  if (!(Math.abs(whole) > 0)) return '–';
  const value = (100 * part) / whole;
  return `${Math.abs(value) >= 9.95 ? value.toFixed(0) : value.toFixed(1)} %`;
}

export function figure(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (unit === 'bytes') return bytes(value);
  if (unit === 'ms') return milliseconds(value);
  if (unit === 'share') return percent(value, 1);
  return count(value);
}

/** A lifetime, in nanoseconds. */
export function nanoseconds(value) {
  if (value < 1e3) return `${digits(Math.round(value))} ns`;
  if (value < 1e6) return `${digits(value / 1e3)} µs`;
  return milliseconds(value / 1e6);
}

/** The lower ends of so many buckets of powers of two from bucket `from` on. */
export function buckets(from, length, text) {
  return Array.from({ length }, (_, i) => text(from + i === 0 ? 0 : 2 ** (from + i - 1)));
}

/** The last part of a path; the whole of it goes into a tooltip. */
export function baseName(path) {
  return path.slice(path.lastIndexOf('/') + 1);
}
