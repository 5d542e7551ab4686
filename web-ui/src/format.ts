// Numbers, with their units, and times.
// A format costs far more to make than to use.
const formats = [0, 1, 2].map((digits) =>
  new Intl.NumberFormat('en', {minimumFractionDigits: digits, maximumFractionDigits: digits}));

export const number = (value: number, digits: 0 | 1 | 2 = 0): string => formats[digits]!.format(value);

export const plural = (count: number, noun: string): string => `${number(count)} ${noun}${count === 1 ? '' : 's'}`;

function significant(value: number): string {
  return number(value, value === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

// 2.5 and 15, but 2 without a zero behind it.
const short = (value: number): string => number(value, value < 9.95 && Math.abs(value - Math.round(value)) >= 0.05 ? 1 : 0);

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds === 0) return '0 ms';
  if (seconds < 0.001) return `${number(seconds * 1e6)} µs`;
  if (seconds < 1) return `${significant(seconds * 1000)} ms`;
  if (seconds < 120) return `${significant(seconds)} s`;
  if (seconds < 7200) return `${short(seconds / 60)} min`;
  return `${short(seconds / 3600)} h`;
}

// A duration that counts up once a second: without tenths.
export const wholeSeconds = (seconds: number): string =>
  (seconds < 120 ? `${number(Math.floor(seconds))} s` : duration(seconds));

export function rateParts(bytesPerSecond: number): [string, string] {
  if (bytesPerSecond >= 1e9) return [number(bytesPerSecond / 1e9, 2), 'GB/s'];
  if (bytesPerSecond >= 1e6) return [significant(bytesPerSecond / 1e6), 'MB/s'];
  return [significant(bytesPerSecond / 1e3), 'kB/s'];
}

export const rate = (bytesPerSecond: number | null): string =>
  (bytesPerSecond === null ? '–' : rateParts(bytesPerSecond).join(' '));

export const bits = (perSecond: number | null): string =>
  (perSecond === null ? 'speed not known' : `${short(perSecond / 1e9)} Gbit/s`);

export function size(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit++;
  }
  return `${unit === 0 ? bytes : significant(bytes)} ${units[unit]}`;
}

const clock = new Intl.DateTimeFormat([], {hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'});
const whole = new Intl.DateTimeFormat([], {dateStyle: 'medium', timeStyle: 'medium'});
const day = new Intl.DateTimeFormat([], {day: '2-digit', month: 'short'});

// The local time; the day too where it is another one than today.
export function localTime(time: string | number | null): string {
  if (time === null) return '–';
  const at = new Date(time);
  const today = at.toDateString() === new Date().toDateString();
  return today ? clock.format(at) : `${day.format(at)} ${clock.format(at)}`;
}

const minute = new Intl.DateTimeFormat([], {hour: '2-digit', minute: '2-digit', hourCycle: 'h23'});

// Times of an axis, in seconds: as fine as their distance wants; the day where another one begins.
export function axisTimes(times: number[]): string[] {
  const first = times[0] ?? 0, last = times[times.length - 1] ?? first, step = times.length > 1 ? (times[1] ?? 0) - first : 0;
  const dayOf = (at: number): string => new Date(at * 1000).toDateString();
  const days = dayOf(first) !== dayOf(last);
  return times.map((at, i) => {
    if (step >= 86400 || (days && (i === 0 || dayOf(times[i - 1] ?? 0) !== dayOf(at)))) return day.format(at * 1000);
    return (step >= 60 ? minute : clock).format(at * 1000);
  });
}

export const bothTimes = (time: string | number | null): string => (time === null ? ''
  : `${whole.format(new Date(time))} local, ${new Date(time).toISOString().replace('T', ' ')} UTC`);

export function ago(time: string, now: number): string {
  return `${wholeSeconds(Math.max(0, (now - Date.parse(time)) / 1000))} ago`;
}

export const share = (part: number, whole: number): string => (whole > 0 ? `${number(100 * part / whole)} %` : '–');
