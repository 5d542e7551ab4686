// A box over the heatmap of rails: neighbouring rails of an agent, and a part of the time. It stands in the URL as
// "0-3@BEGIN/END", so that a link shows another person the same box.
import {rangeSeconds, want, wanted} from './address';
import {isoAt} from './window';

export interface Box { first: number; last: number; from: number; until: number } // rails by their numbers; ms

const FORM = /^(\d{1,3})-(\d{1,3})@([^/]+)\/([^/]+)$/;

const plain = (ms: number): string => isoAt(ms).replace('.000Z', 'Z');

export function readBox(text: string): Box | null {
  const [, first, last, from, until] = FORM.exec(text) ?? [];
  const box = {first: Number(first), last: Number(last), from: Date.parse(from ?? ''), until: Date.parse(until ?? '')};
  return box.first <= box.last && box.from < box.until ? box : null;
}

export const boxText = (box: Box): string => `${box.first}-${box.last}@${plain(box.from)}/${plain(box.until)}`;

export const covers = (box: Box, rail: number): boolean => rail >= box.first && rail <= box.last;

// While a box is drawn, the page holds its time: what is compared must not move away. ms; null: it follows.
export function heldView(): {from: number; until: number} | null {
  const box = readBox(wanted('box'));
  if (!box) return null;
  const until = Math.max(box.until, Date.parse(wanted('until')) || 0);
  return {from: Math.min(box.from, until - rangeSeconds.value * 1000), until};
}

// `until`: where the time that is shown ends as the box is drawn.
export function drawBox(box: Box | null, agent: string, until: number): void {
  if (!box) want({box: '', until: ''});
  else want({agent, box: boxText(box), until: wanted('box') ? wanted('until') : plain(until)});
}

// A corner of a box: a rail, and the begin of a column.
export interface Corner { rail: number; at: number }

export const between = (a: Corner, b: Corner, step: number): Box => ({
  first: Math.min(a.rail, b.rail), last: Math.max(a.rail, b.rail), from: Math.min(a.at, b.at), until: Math.max(a.at, b.at) + step});
