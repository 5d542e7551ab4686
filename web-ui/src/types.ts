// The answers of the scheduler's API, as far as the pages use them: /api/v1/openapi.json has all.
export type Role = 'source' | 'target';

export interface Moment { stage: string; role: Role; at: string; seconds: number }

export interface Side {
  agent: string | null; rails: number[]; path: string | null; outcome: string | null;
  detail: string | null; lost: boolean;
}

export interface TransferEvent {
  kind: string; role: Role; agent: string; at: string; seconds: number | null; peer: string | null;
  bytes: number; retries: number; outcome: string; detail: string | null;
}

export interface Transfer {
  id: string; request: string | null; tenant: string | null; attempt: number; state: string; live: boolean;
  reason: string | null; reason_text: string | null; detail: string | null; tokens: number;
  skip_tokens: number; bytes: number; layers: number; chunks: number; retries: number; path: string | null;
  opened: string | null; ended: string | null; updated: string | null; duration_seconds: number | null;
  age_seconds: number | null; source: Side; target: Side; stages: Moment[]; events?: TransferEvent[];
}

export interface TransferList { transfers: Transfer[]; next: string | null; searched_until?: string | null }

export interface TimelineRail {
  index: number; name: string | null; writes: number | null; bytes: number | null; retries: number | null;
}

export interface Layer {
  layer: number; ready_seconds: number | null; posted_seconds: number | null; landed_seconds: number | null;
  delivered_seconds: number | null;
}

export interface TimelineSide {
  role: Role; agent: string | null; rails: TimelineRail[];
  retries: {at: string; seconds: number | null; retries: number; detail: string | null}[];
}

export interface Timeline { id: string; sides: TimelineSide[]; spans: string; layers: Layer[] }

export interface Percentiles {
  count: number; p50_seconds: number | null; p95_seconds: number | null; p99_seconds: number | null;
}

export interface Summary {
  now: string; version: string; insecure: boolean; troubles: string[]; uptime_seconds: number;
  events: number; last_event: string | null; last_event_seconds: number | null;
  states: Record<string, number>; bytes_per_second: number[];
  latency: {total: Percentiles; wire: Percentiles};
}

// What the stream and the list of agents both have of an agent.
export interface AgentShort {
  name: string; role: 'prefill' | 'decode'; state: string; host: string | null; version: string | null;
  transfers_live: number; rails_up: number; drained: boolean; rail_bytes: number[];
}

export interface Rail {
  name: string; group: number; provider: string; address: string | null; epoch: number; state: string;
  speed_bits_per_second: number | null; bytes: number; writes: number; counters: Record<string, number>;
  traits?: {node?: number | null} | null;
}

// A GPU of the agent's host. `groups`: the rail groups that are nearest to it.
export interface Gpu { pci: string; model: string | null; node: number | null; groups: number[] }

export interface Agent {
  name: string; role: 'prefill' | 'decode'; state: string; boot: string; host: string | null;
  version: string | null; provider: string | null; pid: number; listen: string | null; seen: string | null;
  silent_seconds: number; transfers_live: number; peers_up: number; peers_warm: number | null;
  events_dropped: number; insecure: boolean; drained: boolean; name_shared_with: string | null;
  clock_ahead_seconds: number | null; scheduler: string | null; options: string | null; rails: Rail[];
  engines: {name: string | null; model: string | null; region_bytes: number}[];
  tenants?: {name: string | null}[]; traits?: {gpus?: Gpu[]} | null;
}

export interface PointTimes {
  count: number[]; mean_seconds: (number | null)[]; p50_seconds: (number | null)[];
  p99_seconds: (number | null)[];
}

export interface Series {
  name?: string | null; rail?: number; totals: Record<string, number>; times?: Record<string, PointTimes>;
  transfers?: number[]; failed?: number[]; bytes: number[]; errors?: number[];
}

export interface Fault {
  at: string; until: string | null; kind: string; agent: string | null; rail: number | null; peer: string | null;
  amount: number; text: string | null;
}

export interface Rollups {
  from: string; until: string; step_seconds: number; points: number; series: Series[]; left_out: number;
}

export interface Times {
  count: number; p50_seconds: number | null; p90_seconds: number | null; p99_seconds: number | null;
  buckets: [number, number | null, number][];
}

export interface Histograms {
  from: string; until: string; step_seconds: number;
  groups: {name?: string | null; transfers: number; failed: number; times: Record<string, Times>}[];
}

export interface Window {
  from: string; until: string; step_seconds: number; transfers: number; failed: number; bytes: number; times: Record<string, Times>;
}
export interface Comparison {
  window: Window; with: Window; moved: string | null; text: string;
  differences: Record<string, Record<string, number | null>>;
}

export interface Mark {
  at: string; agent: string; kind: string; before: string | null; after: string | null;
}

export interface ErrorGroup {
  code: string; scope: string; text: string; count: number; more: boolean; first: string; last: string;
  last_transfer: string; next: string;
}

export interface RailPair {
  source: string; target: string; rail: {index: number; name: string | null};
  target_rail: {index: number; name: string | null}; state: string; detail: string | null; bytes: number;
  breaks: number; renewals: number; state_seconds: number | null;
}

export interface Session {
  name: string | null; right: string; via: string; ends: string | null; sign_in: boolean;
}
