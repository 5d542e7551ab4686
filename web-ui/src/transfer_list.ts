// The rows of the table of transfers: the newest page, all that live, and, once a person has asked for older
// ones, every row from the newest to the oldest that was fetched, without a gap.
import {signal} from '@preact/signals';

import {ask, Failure} from './api';
import {address, wanted} from './address';
import {whenAwake} from './query';
import {changed, failed, paused, schedulerNow, signedOut} from './store';
import type {Transfer, TransferList} from './types';
import {isState} from './words';

const PAGE_ROWS = 100;
const ROWS_ONCE = 500; // the most rows of one answer
export const ROWS_MAX = 10000;
const ASKED_ONCE = 20; // live transfers that are fetched one by one in a round
const ROUND_MS = 1000;

export const FIELDS = ['state', 'request', 'tenant', 'agent', 'rail', 'reason', 'path', 'min_duration', 'from', 'until'];

export const rows = signal<Transfer[]>([]);
export const next = signal<string | null>(null);
export const full = signal(false); // the table has its most rows, and the list goes on below
export const state = signal<{loading: boolean; error: string; at: number; searchedUntil: string | null}>(
  {loading: true, error: '', at: 0, searchedUntil: null});

let older = false, turn = 0, loadedFor: string | null = null;

function filters(): Record<string, string> {
  const all = Object.fromEntries(FIELDS.map((name) => [name, wanted(name)]).filter(([, value]) => value));
  if (all['state'] && !isState(all['state'])) delete all['state'];
  return all;
}

const wantedNow = (): string => JSON.stringify(filters());
// Without other filters live transfers may stand far down, so they are asked for as well.
const plain = (): boolean => Object.keys(filters()).every((name) => name === 'tenant' || name === 'request');

const page = (parameters: Record<string, string | number>): Promise<TransferList> =>
  ask<TransferList>('/api/v1/transfers', {...filters(), ...parameters});

const idsOf = (list: Transfer[]): Set<string> => new Set(list.map((transfer) => transfer.id));

async function load(): Promise<{live: Transfer[]; newest: TransferList; fresh: Transfer[]}> {
  // A row that stands ahead says nothing of where the list of before begins.
  const kept = older ? idsOf(rows.value.filter((transfer) => !ahead.has(transfer.id))) : new Set<string>();
  const none: TransferList = {transfers: [], next: null};
  const [live, newest] = await Promise.all([
    plain() ? page({state: 'live', limit: kept.size > 0 ? ROWS_ONCE : 50}) : none, page({limit: PAGE_ROWS})]);
  // More than one page is new, as after the tab was hidden: fetch down to a known row.
  while (kept.size > 0 && newest.next && newest.transfers.length < ROWS_MAX &&
         !kept.has(newest.transfers[newest.transfers.length - 1]?.id ?? '')) {
    const more = await page({limit: ROWS_ONCE, after: newest.next});
    newest.transfers.push(...more.transfers);
    newest.next = more.next;
  }
  const listed = idsOf([...live.transfers, ...newest.transfers]);
  const others = rows.value.filter((transfer) => transfer.live && !listed.has(transfer.id));
  const first = others.length > ASKED_ONCE ? turn++ * ASKED_ONCE % others.length : 0;
  const fresh = older ? await Promise.all(others.slice(first, first + ASKED_ONCE)
    .map((transfer) => ask<Transfer>(`/api/v1/transfers/${transfer.id}`).catch(() => transfer))) : [];
  return {live: live.transfers, newest, fresh};
}

function matchesState(transfer: Transfer): boolean {
  const filter = wanted('state');
  return !filter || !isState(filter) || transfer.state === filter || (filter === 'live' && transfer.live);
}

function merge({live, newest, fresh}: {live: Transfer[]; newest: TransferList; fresh: Transfer[]}): void {
  let list = newest.transfers;
  if (older) {
    const listed = idsOf(list), known = new Map([...fresh, ...live].map((transfer) => [transfer.id, transfer]));
    const kept = rows.value.filter((transfer) => !listed.has(transfer.id) && !ahead.has(transfer.id))
      .map((transfer) => known.get(transfer.id) ?? transfer);
    list = [...list, ...kept].filter(matchesState);
    if (list.length > ROWS_MAX) {
      // What a person reads stays: the oldest go, and where the list goes on below is not known any more.
      list = list.slice(0, ROWS_MAX);
      next.value = null;
      full.value = true;
    }
  } else {
    next.value = newest.next;
    full.value = false;
  }
  const listed = idsOf(list), first = live.filter((transfer) => !listed.has(transfer.id));
  ahead = idsOf(first);
  const before = new Map(rows.value.map((transfer) => [transfer.id, transfer]));
  rows.value = [...first, ...list].map((transfer) => {
    const last = before.get(transfer.id);
    return last && !last.live && !transfer.live && last.updated === transfer.updated ? last : transfer;
  });
}

let ahead = new Set<string>(); // live rows that stand before the list, out of its order

let loading = false, watching = false;

async function round(): Promise<void> {
  // A pause holds what is there: a list that was not shown yet is asked for all the same.
  if (loading || (paused.value && loadedFor === wantedNow()) || signedOut.value !== null || document.hidden) return;
  loading = true;
  const asked = wantedNow();
  if (loadedFor !== asked) {
    older = false;
    ahead = new Set();
  }
  try {
    const loaded = await load();
    if (asked !== wantedNow()) return; // another list was asked for meanwhile
    merge(loaded);
    loadedFor = asked;
    state.value = {loading: false, error: '', at: schedulerNow(), searchedUntil: loaded.newest.searched_until ?? null};
  } catch (error) {
    failed(error);
    const bad = error instanceof Failure && error.status === 400;
    if (asked === wantedNow()) state.value = {...state.value, loading: false, error: error instanceof Error ? error.message : String(error)};
    if (bad) rows.value = [];
  } finally {
    loading = false;
    if (watching && asked !== wantedNow()) void round();
  }
}

// News of the stream: rows that are shown change at once.
function take(): void {
  const news = changed.value;
  if (!news || rows.value.length === 0) return;
  const fresh = new Map(news.transfers.map((transfer) => [transfer.id, transfer])), gone = new Set(news.gone);
  if (!rows.value.some((transfer) => fresh.has(transfer.id) || gone.has(transfer.id))) return;
  rows.value = rows.value.filter((transfer) => !gone.has(transfer.id))
    .map((transfer) => fresh.get(transfer.id) ?? transfer);
}

let asking = false;

export async function loadOlder(): Promise<void> {
  if (asking || !next.value || rows.value.length >= ROWS_MAX) return;
  asking = true;
  const asked = wantedNow();
  older = true;
  try {
    const more = await page({limit: rows.value.length > 400 ? ROWS_ONCE : PAGE_ROWS, after: next.value});
    if (asked !== wantedNow() || !older) return; // another list was asked for meanwhile
    const known = idsOf(rows.value.filter((transfer) => !ahead.has(transfer.id)));
    const added = more.transfers.filter((transfer) => !known.has(transfer.id));
    const moved = idsOf(added);
    rows.value = [...rows.value.filter((transfer) => !moved.has(transfer.id)), ...added];
    for (const id of moved) ahead.delete(id);
    full.value = rows.value.length >= ROWS_MAX && more.next !== null;
    next.value = full.value ? null : more.next;
  } catch (error) {
    failed(error);
  } finally {
    asking = false;
  }
}

export function watchTransfers(): () => void {
  watching = true;
  const stop = changed.subscribe(take);
  const other = address.subscribe(() => {
    if (loadedFor === wantedNow()) return;
    state.value = {loading: true, error: '', at: 0, searchedUntil: null};
    rows.value = [];
    next.value = null;
    full.value = false;
    void round();
  });
  void round();
  const sleep = whenAwake(() => void round());
  const timer = setInterval(() => void round(), ROUND_MS);
  return () => {
    watching = false;
    stop();
    other();
    sleep();
    clearInterval(timer);
  };
}
