// A table of which only the rows that can be seen exist. All rows have the same height.
import {useEffect, useLayoutEffect, useMemo, useRef, useState} from 'preact/hooks';

import {pageKeys} from './keys';
import type {Column} from './transfer_columns';
import type {Sort} from './transfer_sort';
import type {Transfer} from './types';

export const ROW_PX = 32;
const SPARE = 12; // rows above and below what is seen

interface Props {
  rows: Transfer[]; columns: Column[]; open: string; label: string;
  sort: Sort | null; onSort: (column: Column) => void; onOpen: (id: string) => void; onEnd: () => void;
}

// What has not changed is not drawn again.
function Cells({transfer, columns}: {transfer: Transfer; columns: Column[]}) {
  const names = columns.map((column) => column.name).join();
  return useMemo(() => <>{columns.map((column) => <td key={column.name} class={column.number ? 'number' : ''}>{column.cell(transfer)}</td>)}</>, [transfer, names]);
}

function Head({column, sort, onSort}: {column: Column; sort: Sort | null; onSort: (column: Column) => void}) {
  const up = sort?.column.name === column.name ? sort.up : null, way = up === null ? undefined : up ? 'ascending' : 'descending';
  return (
    <th scope="col" class={column.number ? 'number' : ''} title={column.title} aria-sort={way}>
      {column.value ? <button type="button" class="sort" data-sort={column.name} title={`Sort by ${column.label.toLowerCase()}`} onClick={() => onSort(column)}>
        {way ? <span aria-hidden="true">{up ? '▲ ' : '▼ '}</span> : null}{column.label}</button> : column.label}
    </th>
  );
}

export function VirtualTable({rows, columns, open, label, sort, onSort, onOpen, onEnd}: Props) {
  const place = useRef<HTMLDivElement>(null), body = useRef<HTMLTableSectionElement>(null);
  const [view, setView] = useState({top: 0, height: 600});
  const focused = useRef<string | null>(null), top = useRef<string | null>(null);
  const look = (): void => {
    const element = place.current;
    if (!element) return;
    setView({top: element.scrollTop, height: element.clientHeight});
    top.current = element.scrollTop > ROW_PX ? rows[Math.floor(element.scrollTop / ROW_PX)]?.id ?? null : null;
    if (element.scrollTop + element.clientHeight > element.scrollHeight - 20 * ROW_PX && element.scrollTop > 0) onEnd();
  };
  useEffect(() => {
    const watch = new ResizeObserver(look);
    if (place.current) watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  const begin = Math.max(0, Math.floor(view.top / ROW_PX) - SPARE);
  const end = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_PX) + SPARE);

  // Rows that come above must not move what a person reads.
  useEffect(() => {
    const element = place.current, at = top.current === null ? -1 : rows.findIndex((row) => row.id === top.current);
    if (!element || at < 0) return;
    const moved = at - Math.floor(element.scrollTop / ROW_PX);
    if (moved !== 0) element.scrollTop += moved * ROW_PX;
  }, [rows]);

  const focusRow = (id: string): boolean => {
    const row = body.current?.querySelector<HTMLElement>(`[data-key="${id}"]`);
    row?.focus({preventScroll: true});
    return row !== null && row !== undefined;
  };
  const step = (by: number): boolean => {
    const at = rows.findIndex((row) => row.id === (focused.current ?? open));
    const to = Math.max(0, Math.min(rows.length - 1, at + by)), id = rows[to]?.id, element = place.current;
    if (!id || !element) return false;
    focused.current = id;
    const y = to * ROW_PX;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + 2 * ROW_PX > element.scrollTop + element.clientHeight) element.scrollTop = y + 2 * ROW_PX - element.clientHeight;
    look();
    if (!focusRow(id)) requestAnimationFrame(() => focusRow(id));
    if (open && open !== id) onOpen(id);
    return true;
  };
  // Another order begins at its first row.
  const chooseOrder = (column: Column): void => {
    top.current = null;
    if (place.current) place.current.scrollTop = 0;
    onSort(column);
  };
  // Before the rows are seen: a key that comes at once is taken.
  useLayoutEffect(() => {
    const take = (key: string): boolean => {
      if (key === 'j' || key === 'ArrowDown') return step(1);
      if (key === 'k' || key === 'ArrowUp') return step(-1);
      if (key === 'Enter' && focused.current) {
        onOpen(focused.current);
        return true;
      }
      return false;
    };
    pageKeys.add(take);
    return () => { pageKeys.delete(take); };
  });
  return (
    <div class="scroll rows" ref={place} onScroll={look} tabIndex={0} role="region" aria-label={label}>
      <table class="list fixed" id="transfers" aria-rowcount={rows.length + 1} style={{minWidth: `${columns.reduce((sum, column) => sum + column.width, 0)}px`}}>
        <colgroup>{columns.map((column) => <col key={column.name} style={{width: `${column.width}px`}} />)}</colgroup>
        <thead><tr>{columns.map((column) => <Head key={column.name} column={column} sort={sort} onSort={chooseOrder} />)}</tr></thead>
        <tbody ref={body}>
          {begin > 0 ? <tr key="above" class="room" aria-hidden="true"><td colSpan={columns.length} style={{height: `${begin * ROW_PX}px`}} /></tr> : null}
          {rows.slice(begin, end).map((transfer, i) => (
            <tr key={transfer.id} class="row" data-key={transfer.id} tabIndex={0} aria-rowindex={begin + i + 2}
              data-open={open === transfer.id ? 'yes' : undefined}
              onFocus={() => { focused.current = transfer.id; }} onClick={() => onOpen(transfer.id)}>
              <Cells transfer={transfer} columns={columns} />
            </tr>))}
          {end < rows.length ? <tr key="below" class="room" aria-hidden="true"><td colSpan={columns.length} style={{height: `${(rows.length - end) * ROW_PX}px`}} /></tr> : null}
        </tbody>
      </table>
    </div>
  );
}
