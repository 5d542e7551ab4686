// A chart over time by uPlot, with marks, a legend in words, and its data as a table.
import {useEffect, useRef} from 'preact/hooks';
import uPlot from 'uplot';

import {axisTimes, localTime} from './format';
import {DataTable} from './parts';
import {colour, drawn} from './theme';
import type {Mark} from './types';

export interface Line { label: string; token: string; values: (number | null)[]; dash?: boolean; kind?: 'line' | 'bars' }

interface Props {
  title: string; times: number[]; lines: Line[]; unit: (value: number) => string; marks?: Mark[];
  stacked?: boolean; height?: number; last?: string;
}

// Each value becomes the sum of those below and itself.
function stack(lines: Line[]): (number | null)[][] {
  const sums: (number | null)[][] = [];
  for (const line of lines) {
    const below = sums[sums.length - 1];
    sums.push(line.values.map((value, i) => (value === null ? null : value + (below?.[i] ?? 0))));
  }
  return sums;
}

function drawMarks(plot: uPlot, marks: Mark[]): void {
  const {ctx} = plot, {left, top, width, height} = plot.bbox;
  ctx.save();
  ctx.strokeStyle = colour('mark');
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const mark of marks) {
    const x = Math.round(plot.valToPos(Date.parse(mark.at) / 1000, 'x', true)) + 0.5;
    if (x < left || x > left + width) continue;
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
  }
  ctx.restore();
}

function optionsOf({lines, unit, stacked, height = 190}: Props, width: number, marksNow: () => Mark[]): uPlot.Options {
  const axis = {stroke: colour('quiet'), grid: {stroke: colour('line'), width: 1}, ticks: {show: false}, font: '11px system-ui'};
  const series = lines.map((line): uPlot.Series => ({
    label: line.label, stroke: colour(line.token), width: stacked ? 0.5 : 1.6, dash: line.dash ? [4, 3] : undefined,
    fill: stacked || line.kind === 'bars' ? colour(line.token) : undefined, points: {show: false}, spanGaps: false,
    paths: stacked ? uPlot.paths.stepped!({align: 1}) : line.kind === 'bars' ? uPlot.paths.bars!({size: [0.7, 24]}) : undefined,
  }));
  return {
    width, height, legend: {show: false}, cursor: {y: false, points: {size: 5}}, padding: [10, 8, 0, 0],
    scales: {x: {time: true}, y: {range: (_plot, _low, high) => [0, high > 0 ? high * 1.08 : 1]}},
    axes: [{...axis, size: 26, values: (_plot, at) => axisTimes(at)},
      {...axis, size: 64, values: (_plot, at) => at.map((value) => (value === 0 ? '0' : unit(value)))}],
    series: [{}, ...(stacked ? series.reverse() : series)],
    hooks: {draw: [(plot) => drawMarks(plot, marksNow())]},
  };
}

function dataOf({times, lines, stacked}: Props): uPlot.AlignedData {
  const values = stacked ? stack(lines).reverse() : lines.map((line) => line.values);
  return [times, ...values] as uPlot.AlignedData;
}

export function Chart(props: Props) {
  const place = useRef<HTMLDivElement>(null), plot = useRef<uPlot | null>(null), latest = useRef(props);
  latest.current = props;
  const shape = `${drawn.value} ${props.lines.map((line) => line.label).join()}`;
  useEffect(() => {
    const element = place.current!;
    const made = new uPlot(optionsOf(latest.current, element.clientWidth || 400, () => latest.current.marks ?? []), dataOf(latest.current), element);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({width: element.clientWidth, height: made.height}));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => { plot.current?.setData(dataOf(latest.current)); }, [props.times, props.lines]);
  const rows = props.times.map((time, i) => [localTime(time * 1000),
    ...props.lines.map((line) => { const value = line.values[i]; return value === null || value === undefined ? '–' : props.unit(value); })]);
  return (
    <figure class="chart" aria-label={props.title}>
      <figcaption>
        <h3>{props.title}</h3>
        <ul class="legend">
          {props.lines.map((line) => <li key={line.label} class={`key-${line.token}${line.dash ? ' dashed' : ''}`}>{line.label}</li>)}
          {props.marks && props.marks.length > 0 ? <li class="key-mark dashed">a change</li> : null}
        </ul>
      </figcaption>
      <div ref={place} class="plot" role="img" aria-label={`${props.title}, over time. The table below has its data.`} />
      <DataTable caption={props.title} head={['Time', ...props.lines.map((line) => line.label)]} rows={rows} />
    </figure>
  );
}
