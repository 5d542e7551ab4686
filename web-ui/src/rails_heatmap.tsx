// The heatmap of an agent's rails over time. A box is drawn over it by the pointer, or by keys.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';

import {localTime, rate} from './format';
import {pageKeys} from './keys';
import {between, type Box, type Corner} from './rails_box';
import type {Rollups, Series} from './types';

const LEFT = 120, WIDTH = 1000, ROW = 22, FOOT = 24;
const REST_MS = 300; // keys that follow each other faster than this are one choice

// Seconds of a column that had passed when its data came: the last one was not over.
const passed = (data: Rollups, at: number, point: number): number =>
  Math.max(1, Math.min(data.step_seconds, (at - Date.parse(data.from)) / 1000 - point * data.step_seconds));

// Cividis in 9 steps, by the token heat-0 to heat-8.
const heat = (value: number, top: number): number => (value <= 0 ? -1 : Math.min(8, Math.floor(9 * value / top)));

interface Grid { data: Rollups; came: number; series: Series[]; from: number; step: number; cell: number; top: number; height: number }

function gridOf(data: Rollups, came: number): Grid {
  const series = [...data.series].filter((one) => one.rail !== undefined).sort((a, b) => (a.rail ?? 0) - (b.rail ?? 0));
  const top = Math.max(1, ...series.flatMap((one) => one.bytes.map((bytes, point) => bytes / passed(data, came, point))));
  return {data, came, series, from: Date.parse(data.from), step: data.step_seconds * 1000, cell: (WIDTH - LEFT) / data.points, top, height: series.length * ROW + FOOT};
}

function textOf(grid: Grid, one: Series, point: number, name: string): string {
  const errors = one.errors?.[point] ?? 0;
  return `${name} at ${localTime(grid.from + point * grid.step)}: ${rate((one.bytes[point] ?? 0) / passed(grid.data, grid.came, point))}${errors > 0 ? `, ${errors} errors` : ''}`;
}

function Cells({grid, nameOf, downs}: {grid: Grid; nameOf: (rail: number) => string; downs: Set<number>}) {
  return (
    <>
      {grid.series.map((one, row) => (
        <g key={one.rail}>
          <text class={downs.has(one.rail ?? -1) ? 'name down' : 'name'} x={0} y={row * ROW + ROW / 2 + 4}>{nameOf(one.rail ?? 0)}{downs.has(one.rail ?? -1) ? ' ✕ down' : ''}</text>
          {one.bytes.map((bytes, point) => (
            <rect key={point} class={`heat-${heat(bytes / passed(grid.data, grid.came, point), grid.top)}`} x={LEFT + point * grid.cell} y={row * ROW + 1} width={grid.cell - 0.5} height={ROW - 2}>
              <title>{textOf(grid, one, point, nameOf(one.rail ?? 0))}</title>
            </rect>))}
          {(one.errors ?? []).map((errors, point) => (errors > 0 ? <text key={point} class="fault" x={LEFT + (point + 0.5) * grid.cell} y={row * ROW + ROW / 2 + 4} text-anchor="middle">✕</text> : null))}
        </g>))}
      <text class="name" x={LEFT} y={grid.height - 6}>{localTime(grid.from)}</text>
      <text class="name" x={WIDTH} y={grid.height - 6} text-anchor="end">{localTime(grid.data.until)}</text>
    </>
  );
}

// Its part inside of the time that is shown.
function Frame({grid, box}: {grid: Grid; box: Box}) {
  const rows = grid.series.map((one, row) => [one.rail ?? -1, row] as const).filter(([rail]) => rail >= box.first && rail <= box.last).map(([, row]) => row);
  const place = (ms: number): number => Math.max(LEFT, Math.min(WIDTH, LEFT + (ms - grid.from) / grid.step * grid.cell));
  const [left, right] = [place(box.from), place(box.until)];
  if (rows.length === 0 || right <= left) return null;
  const shape = {x: left, y: rows[0]! * ROW, width: right - left, height: rows.length * ROW};
  return <g class="box"><rect class="under" {...shape} /><rect class="chosen" {...shape} /></g>;
}

function cornerAt(grid: Grid, svg: SVGSVGElement, event: PointerEvent): Corner {
  const area = svg.getBoundingClientRect(), scale = WIDTH / area.width, last = grid.series.length - 1;
  const row = Math.max(0, Math.min(last, Math.floor((event.clientY - area.top) * scale / ROW)));
  const point = Math.max(0, Math.min(grid.data.points - 1, Math.floor(((event.clientX - area.left) * scale - LEFT) / grid.cell)));
  return {rail: grid.series[row]?.rail ?? 0, at: grid.from + point * grid.step};
}

// The corner that a key leads to; null: the key is for others.
function moved(grid: Grid, from: Corner, key: string): Corner | null {
  const row = grid.series.findIndex((one) => one.rail === from.rail), point = Math.round((from.at - grid.from) / grid.step), last = grid.data.points - 1;
  const to = (r: number, p: number): Corner => ({rail: grid.series[Math.max(0, Math.min(grid.series.length - 1, r))]?.rail ?? 0,
    at: grid.from + Math.max(0, Math.min(last, p)) * grid.step});
  switch (key) {
    case 'ArrowLeft': return to(row, point - 1);
    case 'ArrowRight': return to(row, point + 1);
    case 'ArrowUp': return to(row - 1, point);
    case 'ArrowDown': return to(row + 1, point);
    case 'Home': return to(row, 0);
    case 'End': return to(row, last);
    default: return null;
  }
}

interface Ends { anchor: Corner; head: Corner }

// Draws at once what is chosen, and tells it when the pointer is lifted or the keys rest.
function useBox(grid: Grid, box: Box | null, tell: (box: Box | null) => void) {
  const [draft, setDraft] = useState<Box | null>(null), ends = useRef<Ends | null>(null), drags = useRef(false), timer = useRef(0);
  const settle = (next: Box | null): void => {
    clearTimeout(timer.current);
    setDraft(null);
    if (next) tell(next);
  };
  const clear = (): boolean => {
    const any = box !== null || draft !== null;
    ends.current = null;
    settle(null);
    if (any) tell(null);
    return any;
  };
  const reach = (anchor: Corner, head: Corner): Box => {
    ends.current = {anchor, head};
    const next = between(anchor, head, grid.step);
    setDraft(next);
    return next;
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Enter' && draft) settle(draft);
    const known = ends.current ?? (box ? {anchor: {rail: box.first, at: box.from}, head: {rail: box.last, at: box.until - grid.step}} : null);
    const start: Corner = known?.head ?? {rail: grid.series[0]?.rail ?? 0, at: grid.from + (grid.data.points - 1) * grid.step};
    const head = moved(grid, start, event.key);
    if (!head) return;
    event.preventDefault();
    event.stopPropagation();
    // The first key shows where the keys are.
    const first = known ? head : start, next = reach(event.shiftKey && known ? known.anchor : first, first);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => settle(next), REST_MS) as unknown as number;
  };
  const onPointerDown = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    const svg = event.currentTarget as SVGSVGElement, at = cornerAt(grid, svg, event), one = ends.current;
    // A finger cannot draw a box where it scrolls: a second tap extends the first.
    const extends_ = event.pointerType === 'touch' ? one !== null && one.anchor.rail === one.head.rail && one.anchor.at === one.head.at : event.shiftKey && one !== null;
    if (event.pointerType !== 'touch') svg.setPointerCapture(event.pointerId);
    drags.current = true;
    reach(extends_ ? one!.anchor : at, at);
  };
  const onPointerMove = (event: PointerEvent): void => {
    if (drags.current && event.pointerType !== 'touch') reach(ends.current!.anchor, cornerAt(grid, event.currentTarget as SVGSVGElement, event));
  };
  const onPointerUp = (): void => {
    if (drags.current && ends.current) settle(between(ends.current.anchor, ends.current.head, grid.step));
    drags.current = false;
  };
  const onPointerCancel = (): void => {
    drags.current = false;
    ends.current = null;
    setDraft(null);
  };
  return {shown: draft ?? box, head: ends.current?.head ?? null, clear, onKeyDown, pointer: {onPointerDown, onPointerMove, onPointerUp, onPointerCancel}};
}

export function Heatmap({data, came, nameOf, downs, box, draw}:
  {data: Rollups; came: number; nameOf: (rail: number) => string; downs: Set<number>; box: Box | null; draw: (box: Box | null) => void}) {
  const grid = useMemo(() => gridOf(data, came), [data, came]);
  const names = grid.series.map((one) => nameOf(one.rail ?? 0)).join(), down = [...downs].join();
  const cells = useMemo(() => <Cells grid={grid} nameOf={nameOf} downs={downs} />, [grid, names, down]);
  const {shown, head, clear, onKeyDown, pointer} = useBox(grid, box, draw), clearNow = useRef(clear);
  clearNow.current = clear;
  // Where it does not fit, the newest is seen first.
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => { place.current!.scrollLeft = place.current!.scrollWidth; }, []);
  useEffect(() => {
    const escape = (key: string): boolean => key === 'Escape' && clearNow.current();
    pageKeys.add(escape);
    return () => { pageKeys.delete(escape); };
  }, []);
  const one = head ? grid.series.find((series) => series.rail === head.rail) : undefined;
  return (
    <>
      <div class="scroll hosts" id="heatmap" ref={place} tabIndex={0} role="application" aria-label="Heatmap of rails over time; the table below has its data" aria-describedby="heatmap-keys" onKeyDown={onKeyDown}>
        <svg class="heatmap" viewBox={`0 0 ${WIDTH} ${grid.height}`} role="img" aria-label="Throughput of each rail over time" {...pointer}>
          {cells}{shown ? <Frame grid={grid} box={shown} /> : null}
        </svg>
      </div>
      <p class="quiet" id="heatmap-keys">Draw a box to see what differs inside it: with the mouse, or with two taps; by keys with the arrows, shift and arrows to extend it, escape to clear it.
        <span role="status" class="hidden">{one && head ? textOf(grid, one, Math.round((head.at - grid.from) / grid.step), nameOf(head.rail)) : ''}</span></p>
    </>
  );
}
