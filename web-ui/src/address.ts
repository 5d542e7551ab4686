// The page that is open, its filters and the range of time: all in the fragment of the URL, so that a
// link shows another person the same. "#/transfers?state=failed&open=0123456789abcdef".
import {computed, signal} from '@preact/signals';

export const PAGES = ['overview', 'fleet', 'transfers', 'rails', 'latency', 'errors', 'replay'] as const;
export type Page = typeof PAGES[number];

export interface Address { page: Page; wanted: Record<string, string> }

export const RANGES: Record<string, number> = {
  '5m': 300, '15m': 900, '1h': 3600, '6h': 21600, '24h': 86400, '7d': 604800,
};
export const RANGE_WORDS: Record<string, string> = {
  '5m': '5 min', '15m': '15 min', '1h': 'hour', '6h': '6 h', '24h': '24 h', '7d': '7 days',
};
export const RANGE_DEFAULT = '15m';

function read(): Address {
  const hash = location.hash.slice(1);
  // A fragment without a page is of the former dashboard, which had the transfers alone there.
  const [path, query] = hash.startsWith('/') ? hash.slice(1).split('?') : [hash ? 'transfers' : '', hash];
  const page = PAGES.find((name) => name === path) ?? 'overview';
  return {page, wanted: Object.fromEntries(new URLSearchParams(query ?? ''))};
}

export const address = signal<Address>(read());
addEventListener('hashchange', () => { address.value = read(); });

export const page = computed(() => address.value.page);
export const wanted = (name: string): string => address.value.wanted[name] ?? '';
export const range = computed(() => (RANGES[wanted('range')] ? wanted('range') : RANGE_DEFAULT));
export const rangeWord = computed(() => RANGE_WORDS[range.value] ?? range.value);
export const rangeSeconds = computed(() => RANGES[range.value] ?? 900);

// The range of time is kept when another page is opened, although these have no use for it; the tenant is a filter
// of the transfers alone.
export const RANGELESS: Partial<Record<Page, string>> = {
  transfers: 'This page shows transfers of all times: “More filters” has when they ended',
  fleet: 'This page shows the fleet as it is now',
  replay: 'This page shows the files that you open',
};

const sharedWith = (to: Page): string[] => (to === 'transfers' ? ['range', 'tenant'] : ['range']);

export function linkTo(to: Page, wants: Record<string, string> = {}): string {
  const query = new URLSearchParams();
  for (const name of sharedWith(to)) if (wanted(name)) query.set(name, wanted(name));
  for (const [name, value] of Object.entries(wants)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  return `#/${to}${query.size > 0 ? `?${query}` : ''}`;
}

function goTo(hash: string): void {
  history.replaceState(null, '', hash);
  address.value = read();
}

export function open(to: Page, wants: Record<string, string> = {}): void {
  history.pushState(null, '', linkTo(to, wants));
  address.value = read();
}

// Changes filters of the page that is open; '' removes one.
export function want(changes: Record<string, string>): void {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({...address.value.wanted, ...changes})) {
    if (value) query.set(name, value);
  }
  goTo(`#/${address.value.page}${query.size > 0 ? `?${query}` : ''}`);
}
