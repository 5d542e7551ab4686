// The order of the rows that are loaded. The scheduler gives transfers by when they began, and no index serves
// another order: the page sorts what it has, and says so.
import {computed} from '@preact/signals';

import {want, wanted} from './address';
import {COLUMNS, type Column} from './transfer_columns';
import {rows} from './transfer_list';
import type {Transfer} from './types';

export interface Sort { column: Column; up: boolean }

export const sort = computed<Sort | null>(() => {
  const [name, way] = wanted('sort').split('-'), column = COLUMNS.find((one) => one.name === name);
  return column?.value ? {column, up: way === 'up'} : null;
});

// The largest first, then the smallest, then the scheduler's order again.
export function sortBy(column: Column): void {
  const now = sort.peek();
  want({sort: now?.column.name !== column.name ? `${column.name}-down` : now.up ? '' : `${column.name}-up`});
}

// Rows without a value come last. Equal ones keep the scheduler's order.
export const sorted = computed<Transfer[]>(() => {
  const by = sort.value, list = rows.value;
  if (!by) return list;
  const sign = by.up ? 1 : -1, worst = by.up ? Infinity : -Infinity;
  const keyed = list.map((transfer) => ({transfer, key: by.column.value!(transfer) ?? worst}));
  keyed.sort((a, b) => (a.key === b.key ? 0 : sign * (a.key < b.key ? -1 : 1)));
  return keyed.map((one) => one.transfer);
});
