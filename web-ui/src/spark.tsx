// The throughput of the last minute as a small line.
import {rate} from './format';

const WIDTH = 236, HEIGHT = 44;

export function Spark({values}: {values: number[]}) {
  if (values.length < 2) return null;
  const top = Math.max(...values, 1);
  const points = values.map((value, i) =>
    `${(i / Math.max(1, values.length - 1) * WIDTH).toFixed(1)},${(HEIGHT - 1 - value / top * (HEIGHT - 4)).toFixed(1)}`);
  const line = `M${points.join('L')}`;
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img"
      aria-label={`Throughput of the last ${values.length} seconds: peak ${rate(Math.max(...values, 0))}`}>
      <path class="base" d={`M0,${HEIGHT - 0.5}H${WIDTH}`} />
      <path class="area" d={`${line}L${WIDTH},${HEIGHT}L0,${HEIGHT}Z`} />
      <path class="stroke" d={line} />
    </svg>
  );
}
