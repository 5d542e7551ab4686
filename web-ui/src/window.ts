// The window of time that all pages share: the range of the URL, up to now, by the scheduler's clock.
import type {Parameters} from './api';
import {rangeSeconds} from './address';
import {schedulerNow} from './store';

export const isoAt = (ms: number): string => new Date(ms).toISOString();

export function windowNow(): {from: string; until: string} {
  const until = schedulerNow();
  return {from: isoAt(until - rangeSeconds.value * 1000), until: isoAt(until)};
}

export const windowParameters = (more: Parameters = {}): Parameters => ({...windowNow(), ...more});

// So many seconds up to now, beside as many before.
export function windowsOf(seconds: number): Parameters {
  const end = schedulerNow(), span = seconds * 1000;
  return {from: isoAt(end - span), until: isoAt(end), with_from: isoAt(end - 2 * span), with_until: isoAt(end - span)};
}

// A long range changes slowly: it need not be asked for as often.
export const windowEvery = (): number => (rangeSeconds.value <= 900 ? 2000 : rangeSeconds.value <= 21600 ? 5000 : 30000);
